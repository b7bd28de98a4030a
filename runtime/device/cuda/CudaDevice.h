// The GPU of this process: its context, and what there is to know about it.
#pragma once

#include "runtime/device/cuda/CublasLt.h"
#include "runtime/device/cuda/Cudnn.h"
#include "runtime/device/cuda/Cupti.h"
#include "runtime/device/cuda/CudaDriver.h"

#include <optional>
#include <string>

namespace tapeout::rt {

class Plan;

/// The libraries that a plan needs.
struct CudaLibraries {
  CudaDriver driver;
  std::optional<CublasLt> blas = {};    ///< for plans with matrix products
  std::optional<CudnnLibrary> dnn = {}; ///< for plans with attention
  Result<Cupti> (*openCupti)() = Cupti::open; ///< called when runs are to be recorded

  /// Unavailable (69) when one is missing.
  static Result<CudaLibraries> open(const Plan &plan);
};

class CudaDevice {
public:
  /// The first GPU that the driver shows (CUDA_VISIBLE_DEVICES), with its context current on this thread. Unavailable (69)
  /// when there is none.
  static Result<CudaDevice> open(const CudaDriver &driver);
  CudaDevice(CudaDevice &&other) noexcept;
  ~CudaDevice();

  const CudaDriver &driver() const { return driver_; }
  const std::string &name() const { return name_; }
  int architecture() const { return architecture_; } ///< 90: sm_90
  int driverVersion() const { return driverVersion_; } ///< 13000: CUDA 13.0

private:
  CudaDevice(const CudaDriver &driver, CuDevice device) : driver_(driver), device_(device) {}
  Status describe();

  CudaDriver driver_;
  CuDevice device_;
  bool ownsContext_ = false;
  std::string name_;
  int architecture_ = 0, driverVersion_ = 0;
};

/// One allocation of the device, zeroed.
Result<Owned<CuDevicePointer>> allocateDevice(const CudaDriver &driver, uint64_t bytes, CuStream stream, const char *what);
/// Memory of the host that the device copies from and to without waiting.
Result<Owned<void *>> allocatePinned(const CudaDriver &driver, uint64_t bytes);

} // namespace tapeout::rt
