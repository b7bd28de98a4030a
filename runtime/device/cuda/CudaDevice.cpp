#include "runtime/device/cuda/CudaDevice.h"

#include "runtime/Plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace tapeout::rt {

Result<CudaLibraries> CudaLibraries::open(const Plan &plan) {
  Result<CudaDriver> driver = CudaDriver::open();
  if (!driver.isOk())
    return driver.status();
  CudaLibraries libraries{.driver = *driver};
  uint64_t products = 0, attentions = 0;
  for (const plan::Program *program : orEmpty(plan.root().programs())) {
    products += totalsOf(*program).products;
    attentions += totalsOf(*program).attentions;
  }
  if (products > 0) {
    Result<CublasLt> blas = CublasLt::open();
    if (!blas.isOk())
      return blas.status();
    libraries.blas = *blas;
  }
  if (attentions > 0) {
    Result<CudnnLibrary> dnn = CudnnLibrary::open();
    if (!dnn.isOk())
      return dnn.status();
    libraries.dnn = *dnn;
  }
  return libraries;
}

Result<CudaDevice> CudaDevice::open(const CudaDriver &driver) {
  int count = 0;
  CuResult started = driver.init(0);
  if (started == kCuSuccess)
    started = driver.deviceGetCount(&count);
  if (started == kCuNoDevice || (started == kCuSuccess && count == 0))
    return Status::error(ExitCode::Unavailable, "this executable trains on an NVIDIA GPU, but the driver shows none; look at "
                                                "nvidia-smi and at CUDA_VISIBLE_DEVICES, or compile the model with --target cpu");
  if (started != kCuSuccess)
    return Status::error(ExitCode::Unavailable, fmt::format("the NVIDIA driver does not start: {}; look at nvidia-smi",
                                                            driver.describe(started)));
  CuDevice ordinal = 0;
  TAPEOUT_RETURN_IF_ERROR(driver.check(driver.deviceGet(&ordinal, 0), "the GPU cannot be opened"));
  CudaDevice device(driver, ordinal);
  TAPEOUT_RETURN_IF_ERROR(device.describe());
  CuContext context;
  if (CuResult result = driver.devicePrimaryCtxRetain(&context, ordinal); result != kCuSuccess)
    return Status::error(ExitCode::Unavailable,
                         fmt::format("the {} gives no context: {}; end the programs that use it, or look at nvidia-smi",
                                     device.name_, driver.describe(result)));
  device.ownsContext_ = true;
  TAPEOUT_RETURN_IF_ERROR(driver.check(driver.ctxSetCurrent(context), "the GPU's context"));
  return device;
}

Status CudaDevice::describe() {
  std::array<char, 256> name = {};
  TAPEOUT_RETURN_IF_ERROR(driver_.check(driver_.deviceGetName(name.data(), name.size() - 1, device_), "the GPU's name"));
  name_ = name.data();
  int major = 0, minor = 0;
  auto get = [&](int attribute, int &value) {
    return driver_.check(driver_.deviceGetAttribute(&value, attribute, device_), "the GPU's architecture");
  };
  TAPEOUT_RETURN_IF_ERROR(get(kCuComputeCapabilityMajor, major));
  TAPEOUT_RETURN_IF_ERROR(get(kCuComputeCapabilityMinor, minor));
  architecture_ = major * 10 + minor;
  return driver_.check(driver_.driverGetVersion(&driverVersion_), "the driver's version");
}

CudaDevice::CudaDevice(CudaDevice &&other) noexcept
    : driver_(other.driver_), device_(other.device_), ownsContext_(std::exchange(other.ownsContext_, false)),
      name_(std::move(other.name_)), architecture_(other.architecture_), driverVersion_(other.driverVersion_) {}

CudaDevice::~CudaDevice() {
  if (ownsContext_)
    driver_.devicePrimaryCtxRelease(device_);
}

Result<Owned<CuDevicePointer>> allocateDevice(const CudaDriver &driver, uint64_t bytes, CuStream stream, const char *what) {
  CuDevicePointer pointer;
  bytes = std::max<uint64_t>(bytes, 1);
  if (CuResult result = driver.memAlloc(&pointer, bytes); result != kCuSuccess)
    return Status::error(ExitCode::Unavailable,
                         fmt::format("the GPU refuses {:.2f} GiB for the {}: {}; compile with a smaller --batch, or end the "
                                     "programs that use the GPU",
                                     static_cast<double>(bytes) / (1 << 30), what, driver.describe(result)));
  Owned<CuDevicePointer> owned(pointer, driver.memFree);
  TAPEOUT_RETURN_IF_ERROR(driver.check(driver.memsetD8Async(pointer, 0, bytes, stream), what));
  return owned;
}

Result<Owned<void *>> allocatePinned(const CudaDriver &driver, uint64_t bytes) {
  void *pointer;
  TAPEOUT_RETURN_IF_ERROR(driver.check(driver.memAllocHost(&pointer, std::max<uint64_t>(bytes, 1)),
                                       fmt::format("the system gives no {} bytes of pinned memory for inputs", bytes)));
  return Owned<void *>(pointer, driver.memFreeHost);
}

} // namespace tapeout::rt
