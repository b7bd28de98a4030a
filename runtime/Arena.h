// The memory of a run: two regions whose sizes the plan fixes (see runtime/plan.fbs).
//
// Pages come zeroed from the system and count only once they are touched. Regions start at 2 MiB boundaries, so that
// transparent huge pages can back them.
#pragma once

#include "runtime/Plan.h"
#include "runtime/base/Status.h"

#include <cstddef>
#include <cstdint>
#include <utility>

namespace tapeout::rt {

/// One mapping. Bytes [size, capacity) are slack that no slot may use.
class MemoryRegion {
public:
  static constexpr uint64_t kAlignment = uint64_t(2) << 20;
  static constexpr uint64_t kMinSlack = 4096;

  static Result<MemoryRegion> create(uint64_t bytes, const char *what);
  MemoryRegion() = default;
  MemoryRegion(MemoryRegion &&other) noexcept { swap(other); }
  MemoryRegion &operator=(MemoryRegion &&other) noexcept {
    swap(other);
    return *this;
  }
  ~MemoryRegion();

  uint8_t *data() const { return data_; }
  uint64_t size() const { return size_; }
  uint64_t capacity() const { return capacity_; }
  /// Bytes of the pages that were touched; with huge pages up to 2 MiB more than the bytes that were.
  uint64_t residentBytes() const;

private:
  void swap(MemoryRegion &other) noexcept;

  uint8_t *data_ = nullptr;
  uint64_t size_ = 0, capacity_ = 0;
  void *mapping_ = nullptr;
  uint64_t mappingBytes_ = 0;
};

/// Bytes that a process may still take: what the system calls available, or less inside a container with a limit.
uint64_t availableMemory();

class Arena {
public:
  /// Unavailable (69) when the plan needs more than `availableBytes`, before any page is touched.
  static Result<Arena> create(const Plan &plan, uint64_t availableBytes);

  uint8_t *address(const plan::Slot &slot) const {
    return (slot.kind() == plan::SlotKind::Arena ? transient_ : persistent_).data() + slot.offset();
  }
  const MemoryRegion &transient() const { return transient_; }
  const MemoryRegion &persistent() const { return persistent_; }

  /// Notes that a program uses this slot.
  void touch(const plan::Slot &slot) {
    if (slot.kind() == plan::SlotKind::Arena && slot.offset() + slot.bytes() > highWater_)
      highWater_ = slot.offset() + slot.bytes();
  }
  /// End of the highest transient slot that any prepared program uses; a tight plan has arena_bytes equal to it.
  uint64_t highWater() const { return highWater_; }

private:
  MemoryRegion transient_, persistent_;
  uint64_t highWater_ = 0;
};

} // namespace tapeout::rt
