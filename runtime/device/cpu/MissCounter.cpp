#include "runtime/device/cpu/MissCounter.h"

#include <linux/perf_event.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>

namespace tapeout::rt {

static std::string reason(int error) {
  switch (error) {
  case EACCES:
  case EPERM:
    return "the system does not let this user count cache misses (see /proc/sys/kernel/perf_event_paranoid)";
  case ENOENT:
  case ENODEV:
  case EOPNOTSUPP:
    return "this processor, or this virtual machine, has no counter of cache misses";
  default:
    return std::strerror(error);
  }
}

Result<MissCounter> MissCounter::open() {
  perf_event_attr attributes = {};
  attributes.size = sizeof attributes;
  attributes.type = PERF_TYPE_HARDWARE;
  attributes.config = PERF_COUNT_HW_CACHE_MISSES;
  attributes.exclude_kernel = 1;
  attributes.inherit = 1;
  long descriptor = syscall(SYS_perf_event_open, &attributes, 0, -1, -1, PERF_FLAG_FD_CLOEXEC);
  if (descriptor < 0)
    return Status::error(ExitCode::Unavailable, reason(errno));
  return MissCounter(static_cast<int>(descriptor));
}

MissCounter::~MissCounter() {
  if (descriptor_ >= 0)
    close(descriptor_);
}

uint64_t MissCounter::misses() const {
  uint64_t value = 0;
  return read(descriptor_, &value, sizeof value) == sizeof value ? value : 0;
}

} // namespace tapeout::rt
