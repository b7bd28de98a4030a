#include "runtime/device/cuda/CudaDriver.h"

#include "runtime/device/cuda/LibrarySearch.h"

#include <fmt/format.h>

namespace tapeout::rt {

Result<CudaDriver> CudaDriver::open() {
  constexpr const char *kNames[] = {"libcuda.so.1"};
  Result<void *> library =
      openLibrary(kNames, nvidiaLibraryFolders(), "this executable trains on an NVIDIA GPU, but there is no NVIDIA driver",
                  "run it where one is installed, or compile the model with --target cpu");
  return library.isOk() ? resolve(*library) : library.status();
}

Result<CudaDriver> CudaDriver::resolve(void *library) {
  CudaDriver driver = {};
  SymbolTable symbols(library);
  symbols.find("cuInit", driver.init);
  symbols.find("cuDriverGetVersion", driver.driverGetVersion);
  symbols.find("cuGetErrorName", driver.getErrorName);
  symbols.find("cuGetErrorString", driver.getErrorString);
  symbols.find("cuDeviceGetCount", driver.deviceGetCount);
  symbols.find("cuDeviceGet", driver.deviceGet);
  symbols.find("cuDeviceGetName", driver.deviceGetName);
  symbols.find("cuDeviceGetAttribute", driver.deviceGetAttribute);
  symbols.find("cuDevicePrimaryCtxRetain", driver.devicePrimaryCtxRetain);
  symbols.find("cuDevicePrimaryCtxRelease_v2", driver.devicePrimaryCtxRelease);
  symbols.find("cuCtxSetCurrent", driver.ctxSetCurrent);
  symbols.find("cuMemGetInfo_v2", driver.memGetInfo);
  symbols.find("cuMemAlloc_v2", driver.memAlloc);
  symbols.find("cuMemFree_v2", driver.memFree);
  symbols.find("cuMemAllocHost_v2", driver.memAllocHost);
  symbols.find("cuMemFreeHost", driver.memFreeHost);
  symbols.find("cuMemcpyHtoDAsync_v2", driver.memcpyHtoDAsync);
  symbols.find("cuMemcpyDtoHAsync_v2", driver.memcpyDtoHAsync);
  symbols.find("cuMemcpyDtoDAsync_v2", driver.memcpyDtoDAsync);
  symbols.find("cuMemsetD8Async", driver.memsetD8Async);
  symbols.find("cuModuleLoadDataEx", driver.moduleLoadDataEx);
  symbols.find("cuModuleUnload", driver.moduleUnload);
  symbols.find("cuModuleGetFunction", driver.moduleGetFunction);
  symbols.find("cuFuncSetAttribute", driver.funcSetAttribute);
  symbols.find("cuLaunchKernel", driver.launchKernel);
  symbols.find("cuStreamCreate", driver.streamCreate);
  symbols.find("cuStreamDestroy_v2", driver.streamDestroy);
  symbols.find("cuStreamSynchronize", driver.streamSynchronize);
  symbols.find("cuStreamBeginCapture_v2", driver.streamBeginCapture);
  symbols.find("cuStreamEndCapture", driver.streamEndCapture);
  symbols.find("cuStreamGetCaptureInfo_v2", driver.streamGetCaptureInfo);
  symbols.find("cuGraphGetNodes", driver.graphGetNodes);
  symbols.find("cuGraphNodeGetType", driver.graphNodeGetType);
  symbols.find("cuGraphInstantiateWithFlags", driver.graphInstantiate);
  symbols.find("cuGraphLaunch", driver.graphLaunch);
  symbols.find("cuGraphDestroy", driver.graphDestroy);
  symbols.find("cuGraphExecDestroy", driver.graphExecDestroy);
  symbols.find("cuEventCreate", driver.eventCreate);
  symbols.find("cuEventDestroy_v2", driver.eventDestroy);
  symbols.find("cuEventRecord", driver.eventRecord);
  symbols.find("cuEventSynchronize", driver.eventSynchronize);
  symbols.find("cuEventElapsedTime", driver.eventElapsedTime);
  symbols.findOptional("cuTensorMapEncodeTiled", driver.tensorMapEncodeTiled);
  TAPEOUT_RETURN_IF_ERROR(symbols.status("the NVIDIA driver (libcuda.so.1)"));
  return driver;
}

std::string CudaDriver::describe(CuResult result) const {
  const char *name = nullptr, *text = nullptr;
  if (getErrorName(result, &name) != kCuSuccess || getErrorString(result, &text) != kCuSuccess || !name || !text)
    return fmt::format("error {} of the driver", result);
  return fmt::format("{} ({})", text, name);
}

Status CudaDriver::check(CuResult result, std::string_view what) const {
  if (result == kCuSuccess)
    return Status::ok();
  return Status::error(result == kCuOutOfMemory ? ExitCode::Unavailable : ExitCode::Failed,
                       fmt::format("{}: {}", what, describe(result)));
}

} // namespace tapeout::rt
