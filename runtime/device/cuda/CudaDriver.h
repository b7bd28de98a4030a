// The part of the CUDA driver API that we use, opened from libcuda.so.1. The declarations follow cuda.h of CUDA 13.0; all of
// these functions but one are in drivers from CUDA 11.4 on. There is no need for NVIDIA's headers.
#pragma once

#include "runtime/base/Status.h"

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <utility>

namespace tapeout::rt {

using CuResult = int; // CUresult
using CuDevice = int;
using CuDevicePointer = uint64_t; // CUdeviceptr
using CuContext = struct CuContextObject *;
using CuModule = struct CuModuleObject *;
using CuFunction = struct CuFunctionObject *;
using CuStream = struct CuStreamObject *;
using CuEvent = struct CuEventObject *;
using CuGraph = struct CuGraphObject *;
using CuGraphNode = struct CuGraphNodeObject *;
using CuGraphExec = struct CuGraphExecObject *;

constexpr CuResult kCuSuccess = 0, kCuOutOfMemory = 2, kCuNoDevice = 100;
constexpr int kCuComputeCapabilityMajor = 75, kCuComputeCapabilityMinor = 76; // CUdevice_attribute
constexpr int kCuMaxSharedBytesOptin = 97;
constexpr int kCuMaxDynamicSharedBytes = 8;      // CUfunction_attribute
constexpr unsigned kCuStreamNonBlocking = 1;     // CUstream_flags
constexpr unsigned kCuEventDisableTiming = 2;    // CUevent_flags
constexpr int kCuCaptureThreadLocal = 1;         // CUstreamCaptureMode
constexpr int kCuNodeKernel = 0, kCuNodeCopy = 1, kCuNodeFill = 2; // CUgraphNodeType
constexpr int kCuMapF16 = 6, kCuMapF32 = 7, kCuMapBf16 = 9; // CUtensorMapDataType
constexpr int kCuMapNoInterleave = 0;                      // CUtensorMapInterleave
constexpr int kCuMapSwizzle128 = 3;                        // CUtensorMapSwizzle
constexpr int kCuMapPromotion256 = 3;                      // CUtensorMapL2promotion
constexpr int kCuMapZeroFill = 0;                          // CUtensorMapFloatOOBfill
constexpr int kCuJitErrorLog = 5, kCuJitErrorLogBytes = 6; // CUjit_option

struct alignas(64) CuTensorMap { // CUtensorMap
  uint64_t opaque[16];
};

struct CudaDriver {
  /// Unavailable (69) without a driver. Opens no device.
  static Result<CudaDriver> open();
  /// From an open library.
  static Result<CudaDriver> resolve(void *library);

  CuResult (*init)(unsigned flags);
  CuResult (*driverGetVersion)(int *version); ///< 13000: CUDA 13.0
  CuResult (*getErrorName)(CuResult error, const char **name);
  CuResult (*getErrorString)(CuResult error, const char **text);

  CuResult (*deviceGetCount)(int *count);
  CuResult (*deviceGet)(CuDevice *device, int ordinal);
  CuResult (*deviceGetName)(char *name, int length, CuDevice device);
  CuResult (*deviceGetAttribute)(int *value, int attribute, CuDevice device);
  CuResult (*devicePrimaryCtxRetain)(CuContext *context, CuDevice device);
  CuResult (*devicePrimaryCtxRelease)(CuDevice device);
  CuResult (*ctxSetCurrent)(CuContext context);

  CuResult (*memGetInfo)(size_t *freeBytes, size_t *totalBytes);
  CuResult (*memAlloc)(CuDevicePointer *pointer, size_t bytes);
  CuResult (*memFree)(CuDevicePointer pointer);
  CuResult (*memAllocHost)(void **pointer, size_t bytes); ///< pinned
  CuResult (*memFreeHost)(void *pointer);
  CuResult (*memcpyHtoDAsync)(CuDevicePointer to, const void *from, size_t bytes, CuStream stream);
  CuResult (*memcpyDtoHAsync)(void *to, CuDevicePointer from, size_t bytes, CuStream stream);
  CuResult (*memcpyDtoDAsync)(CuDevicePointer to, CuDevicePointer from, size_t bytes, CuStream stream);
  CuResult (*memsetD8Async)(CuDevicePointer to, unsigned char value, size_t bytes, CuStream stream);

  CuResult (*moduleLoadDataEx)(CuModule *module, const void *image, unsigned optionCount, int *options, void **values);
  CuResult (*moduleUnload)(CuModule module);
  CuResult (*moduleGetFunction)(CuFunction *function, CuModule module, const char *name);
  CuResult (*funcSetAttribute)(CuFunction function, int attribute, int value);
  CuResult (*launchKernel)(CuFunction function, unsigned gridX, unsigned gridY, unsigned gridZ, unsigned blockX,
                           unsigned blockY, unsigned blockZ, unsigned sharedBytes, CuStream stream, void **parameters,
                           void **extra);

  CuResult (*streamCreate)(CuStream *stream, unsigned flags);
  CuResult (*streamDestroy)(CuStream stream);
  CuResult (*streamSynchronize)(CuStream stream);
  CuResult (*streamBeginCapture)(CuStream stream, int mode);
  CuResult (*streamEndCapture)(CuStream stream, CuGraph *graph);
  /// The last two may be null.
  CuResult (*streamGetCaptureInfo)(CuStream stream, int *state, uint64_t *id, CuGraph *graph, const CuGraphNode **dependencies,
                                   size_t *dependencyCount);
  CuResult (*graphGetNodes)(CuGraph graph, CuGraphNode *nodes, size_t *count); ///< only the number where `nodes` is null
  CuResult (*graphNodeGetType)(CuGraphNode node, int *type);
  CuResult (*graphInstantiate)(CuGraphExec *executable, CuGraph graph, unsigned long long flags);
  CuResult (*graphLaunch)(CuGraphExec executable, CuStream stream);
  CuResult (*graphDestroy)(CuGraph graph);
  CuResult (*graphExecDestroy)(CuGraphExec executable);

  CuResult (*eventCreate)(CuEvent *event, unsigned flags);
  CuResult (*eventDestroy)(CuEvent event);
  CuResult (*eventRecord)(CuEvent event, CuStream stream);
  CuResult (*eventSynchronize)(CuEvent event);
  CuResult (*eventElapsedTime)(float *milliseconds, CuEvent begin, CuEvent end);

  /// Null before CUDA 12.0. The fastest dimension is first; strides are in bytes, from the second dimension on.
  CuResult (*tensorMapEncodeTiled)(CuTensorMap *map, int type, uint32_t rank, void *address, const uint64_t *sizes,
                                   const uint64_t *strides, const uint32_t *box, const uint32_t *elementStrides,
                                   int interleave, int swizzle, int promotion, int fill);

  /// "out of memory (CUDA_ERROR_OUT_OF_MEMORY)".
  std::string describe(CuResult result) const;
  /// "`what`: out of memory (CUDA_ERROR_OUT_OF_MEMORY)"; Unavailable for memory, else Failed.
  Status check(CuResult result, std::string_view what) const;
};

/// A handle that is destroyed with its owner. NVIDIA's destroy functions all return an integer that nobody can act on.
template <typename Handle> class Owned {
public:
  Owned() = default;
  Owned(Handle handle, int (*destroy)(Handle)) : handle_(handle), destroy_(destroy) {}
  Owned(Owned &&other) noexcept : handle_(other.handle_), destroy_(std::exchange(other.destroy_, nullptr)) {}
  Owned &operator=(Owned &&other) noexcept {
    std::swap(handle_, other.handle_);
    std::swap(destroy_, other.destroy_);
    return *this;
  }
  ~Owned() {
    if (destroy_)
      destroy_(handle_);
  }
  Handle get() const { return handle_; }
  explicit operator bool() const { return destroy_; }

private:
  Handle handle_ = {};
  int (*destroy_)(Handle) = nullptr;
};

} // namespace tapeout::rt
