// The generated kernels of a plan for cuda, loaded into the driver.
#pragma once

#include "runtime/Plan.h"
#include "runtime/device/cuda/CudaDriver.h"

#include <optional>
#include <span>
#include <vector>

namespace tapeout::rt {

/// What of a module a device loads.
struct ModuleImage {
  std::span<const uint8_t> bytes; ///< of PTX with the zero at its end
  bool isPtx;
};

/// The cubin of the device's major version with the highest minor version that it has, else the PTX, which the driver
/// compiles; nothing when there is neither. `architecture`: 90 for sm_90.
std::optional<ModuleImage> chooseImage(const plan::KernelModule &module, int architecture);

/// Unavailable when a module has nothing for this device; `device` is its name for the message.
Status checkImages(const Plan &plan, int architecture, const std::string &device);

class KernelModules {
public:
  /// The context is current. `driver` outlives the result.
  static Result<KernelModules> load(const CudaDriver &driver, const Plan &plan, int architecture);
  /// The function of a kernel of the plan.
  CuFunction function(uint32_t kernel) const { return functions_[kernel]; }

private:
  std::vector<Owned<CuModule>> modules_;
  std::vector<CuFunction> functions_;
};

} // namespace tapeout::rt
