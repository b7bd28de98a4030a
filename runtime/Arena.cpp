#include "runtime/Arena.h"

#include <fmt/format.h>

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <limits>
#include <string>
#include <vector>

namespace tapeout::rt {
namespace {

double gibibytes(uint64_t bytes) { return static_cast<double>(bytes) / (1 << 30); }

Status tooLarge(const char *what, uint64_t bytes) {
  return Status::error(ExitCode::Unavailable,
                       fmt::format("the system refuses {:.2f} GiB for the {}; compile with a smaller --batch or with "
                                   "--recompute",
                                   gibibytes(bytes), what));
}

} // namespace

Result<MemoryRegion> MemoryRegion::create(uint64_t bytes, const char *what) {
  if (bytes > std::numeric_limits<int64_t>::max() / 2)
    return tooLarge(what, bytes);
  MemoryRegion region;
  region.size_ = bytes;
  region.capacity_ = (bytes + kMinSlack + kAlignment - 1) / kAlignment * kAlignment;
  region.mappingBytes_ = region.capacity_ + kAlignment;
  void *mapping =
      mmap(nullptr, region.mappingBytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapping == MAP_FAILED)
    return tooLarge(what, bytes);
  region.mapping_ = mapping;
  uintptr_t start = (reinterpret_cast<uintptr_t>(mapping) + kAlignment - 1) / kAlignment * kAlignment;
  region.data_ = reinterpret_cast<uint8_t *>(start);
  madvise(region.data_, region.capacity_, MADV_HUGEPAGE); // advice: a system without huge pages ignores it
  return region;
}

MemoryRegion::~MemoryRegion() {
  if (mapping_)
    munmap(mapping_, mappingBytes_);
}

void MemoryRegion::swap(MemoryRegion &other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  std::swap(capacity_, other.capacity_);
  std::swap(mapping_, other.mapping_);
  std::swap(mappingBytes_, other.mappingBytes_);
}

uint64_t MemoryRegion::residentBytes() const {
  uint64_t page = sysconf(_SC_PAGESIZE);
  std::vector<unsigned char> pages(capacity_ / page);
  if (pages.empty() || mincore(data_, capacity_, pages.data()) != 0)
    return 0;
  return page * std::count_if(pages.begin(), pages.end(), [](unsigned char state) { return state & 1; });
}

uint64_t availableMemory() {
  uint64_t available = std::numeric_limits<uint64_t>::max();
  std::ifstream meminfo("/proc/meminfo");
  for (std::string key, rest; meminfo >> key && std::getline(meminfo, rest);)
    if (key == "MemAvailable:")
      available = std::stoull(rest) * 1024;
  // A container's limit: control groups version 2, then version 1. "max" fails to parse and means none.
  for (const char *path : {"/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"}) {
    std::ifstream file(path);
    if (uint64_t limit; file >> limit)
      available = std::min(available, limit);
  }
  return available;
}

Result<Arena> Arena::create(const Plan &plan, uint64_t availableBytes) {
  uint64_t needed = plan.arenaBytes() + plan.persistentBytes(); // no overflow: Plan limits both
  if (needed > availableBytes)
    return Status::error(ExitCode::Unavailable,
                         fmt::format("the model needs {:.2f} GiB of memory ({:.2f} GiB for one step, {:.2f} GiB for "
                                     "parameters and optimizer) but {:.2f} GiB are available; compile with a smaller "
                                     "--batch or free memory",
                                     gibibytes(needed), gibibytes(plan.arenaBytes()), gibibytes(plan.persistentBytes()),
                                     gibibytes(availableBytes)));
  Result<MemoryRegion> transient = MemoryRegion::create(plan.arenaBytes(), "values of one step");
  if (!transient.isOk())
    return transient.status();
  Result<MemoryRegion> persistent = MemoryRegion::create(plan.persistentBytes(), "parameters and optimizer");
  if (!persistent.isOk())
    return persistent.status();
  Arena arena;
  arena.transient_ = std::move(*transient);
  arena.persistent_ = std::move(*persistent);
  return arena;
}

} // namespace tapeout::rt
