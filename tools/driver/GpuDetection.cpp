#include "tools/driver/GpuDetection.h"

#include <dlfcn.h>

namespace tapeout::driver {

// The driver API's functions, from cuda.h; none of them has changed since CUDA 7.
std::optional<unsigned> detectGpu() {
  constexpr int kSuccess = 0, kMajor = 75, kMinor = 76;
  void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL); // stays open: it may not be loaded twice
  if (!library)
    return std::nullopt;
  auto init = reinterpret_cast<int (*)(unsigned)>(dlsym(library, "cuInit"));
  auto count = reinterpret_cast<int (*)(int *)>(dlsym(library, "cuDeviceGetCount"));
  auto device = reinterpret_cast<int (*)(int *, int)>(dlsym(library, "cuDeviceGet"));
  auto attribute = reinterpret_cast<int (*)(int *, int, int)>(dlsym(library, "cuDeviceGetAttribute"));
  if (!init || !count || !device || !attribute || init(0) != kSuccess)
    return std::nullopt;
  int devices = 0, first = 0, major = 0, minor = 0;
  if (count(&devices) != kSuccess || devices < 1 || device(&first, 0) != kSuccess ||
      attribute(&major, kMajor, first) != kSuccess || attribute(&minor, kMinor, first) != kSuccess)
    return std::nullopt;
  return major * 10 + minor;
}

} // namespace tapeout::driver
