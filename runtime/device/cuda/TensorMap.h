// Tensor maps of kernels (table TensorMap of runtime/plan.fbs), as the driver makes them.
#pragma once

#include "runtime/Plan.h"
#include "runtime/device/cuda/CudaDriver.h"

namespace tapeout::rt {

/// Unavailable where a kernel of the plan takes tensor maps, which the driver lacks.
Status checkTensorMapSupport(const CudaDriver &driver, const Plan &plan);

/// The driver's descriptor of a map of a checked plan, whose argument is `slot`, which lies at `address`.
Result<CuTensorMap> encodeTensorMap(const CudaDriver &driver, const plan::TensorMap &map, const plan::Slot &slot,
                                    CuDevicePointer address);

} // namespace tapeout::rt
