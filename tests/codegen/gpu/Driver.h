// The few functions of CUDA's driver API that the checks of kernels need. From cuda.h of CUDA 12 and 13.
#pragma once

#include <dlfcn.h>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>

namespace tapeout::gpu {

using Address = unsigned long long;
using Module = struct CUmod_st *;
using Function = struct CUfunc_st *;
using Event = struct CUevent_st *;
using Context = struct CUctx_st *;

/// Opens the driver and the first GPU. A failing call says which and ends the program with 69.
class Driver {
public:
  Driver() {
    library_ = dlopen("libcuda.so.1", RTLD_NOW);
    if (!library_) {
      std::fprintf(stderr, "there is no NVIDIA driver (libcuda.so.1)\n");
      std::exit(69);
    }
    Context context = nullptr;
    int device = 0;
    call<unsigned>("cuInit", 0);
    call<int *, int>("cuDeviceGet", &device, 0);
    call<Context *, int>("cuDevicePrimaryCtxRetain", &context, device);
    call<Context>("cuCtxSetCurrent", context);
  }

  Address allocate(size_t bytes) {
    Address address = 0;
    call<Address *, size_t>("cuMemAlloc_v2", &address, bytes);
    return address;
  }
  void free(Address address) { call<Address>("cuMemFree_v2", address); }
  void toDevice(Address to, const void *from, size_t bytes) {
    call<Address, const void *, size_t>("cuMemcpyHtoD_v2", to, from, bytes);
  }
  void toHost(void *to, Address from, size_t bytes) { call<void *, Address, size_t>("cuMemcpyDtoH_v2", to, from, bytes); }
  void copy(Address to, Address from, size_t bytes) {
    call<Address, Address, size_t, void *>("cuMemcpyDtoDAsync_v2", to, from, bytes, nullptr);
  }
  void fill(Address to, uint32_t word, size_t words) { call<Address, unsigned, size_t>("cuMemsetD32_v2", to, word, words); }
  Module load(const void *image) {
    Module module = nullptr;
    call<Module *, const void *>("cuModuleLoadData", &module, image);
    return module;
  }
  Function function(Module module, const char *name) {
    Function function = nullptr;
    call<Function *, Module, const char *>("cuModuleGetFunction", &function, module, name);
    return function;
  }
  void launch(Function function, unsigned blocks, unsigned threads, unsigned sharedBytes, void **arguments) {
    constexpr int kMaxDynamicSharedBytes = 8; // CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
    if (sharedBytes > 0)
      call<Function, int, int>("cuFuncSetAttribute", function, kMaxDynamicSharedBytes, int(sharedBytes));
    call<Function, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void *, void **, void **>(
        "cuLaunchKernel", function, blocks, 1, 1, threads, 1, 1, sharedBytes, nullptr, arguments, nullptr);
  }
  void synchronize() { call("cuCtxSynchronize"); }
  Event record() {
    Event event = nullptr;
    call<Event *, unsigned>("cuEventCreate", &event, 0);
    call<Event, void *>("cuEventRecord", event, nullptr);
    return event;
  }
  float milliseconds(Event from, Event to) {
    float time = 0;
    call<Event>("cuEventSynchronize", to);
    call<float *, Event, Event>("cuEventElapsedTime", &time, from, to);
    return time;
  }

private:
  template <typename... Arguments> void call(const char *name, Arguments... arguments) {
    auto function = reinterpret_cast<int (*)(Arguments...)>(dlsym(library_, name));
    int code = function ? function(arguments...) : -1;
    if (code != 0) {
      std::fprintf(stderr, "%s fails with error %d\n", name, code);
      std::exit(69);
    }
  }

  void *library_;
};

} // namespace tapeout::gpu
