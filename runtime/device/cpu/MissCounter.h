// The processor's count of last-level cache misses of this process, for `tapeout bench`.
#pragma once

#include "runtime/base/Status.h"

#include <cstdint>

namespace tapeout::rt {

class MissCounter {
public:
  /// Counts the calling thread and those that it starts from now on, outside of the kernel. Unavailable (69), with the
  /// reason, where the system or the machine has no such counter.
  static Result<MissCounter> open();

  MissCounter(MissCounter &&other) noexcept : descriptor_(other.descriptor_) { other.descriptor_ = -1; }
  MissCounter &operator=(MissCounter &&) = delete;
  ~MissCounter();

  /// Misses so far; each moves one cache line of 64 bytes.
  uint64_t misses() const;

private:
  explicit MissCounter(int descriptor) : descriptor_(descriptor) {}
  int descriptor_;
};

} // namespace tapeout::rt
