// The checks behind Plan::load. Plan users include Plan.h only.
#pragma once

#include "runtime/base/Status.h"
#include "runtime/plan_generated.h"

#include <fmt/format.h>

namespace tapeout::rt {

/// Everything a FlatBuffers verifier cannot know: presence, indices, sizes, offsets, strides, kinds, names.
/// Expects a buffer that passed the verifier. The first fault is the error (BadData).
Status checkPlan(const plan::Plan &plan);

// Parts of it that only plans for cuda have (PlanCheckCuda.cpp).
Status checkModules(const plan::Plan &plan);
Status checkGpuKernel(const plan::Plan &plan, const plan::Kernel &kernel);
/// One of the kernel's tensor maps, in a launch that gives `slot`, correct by itself, as the map's argument.
Status checkTensorMap(const plan::Kernel &kernel, const plan::TensorMap &map, const plan::Slot &slot);
/// Types, strides and epilogue of a product that is else correct.
Status checkCudaMatmul(const plan::Matmul &matmul, plan::ElementType a, plan::ElementType b, plan::ElementType c);

template <typename... Args> Status bad(fmt::format_string<Args...> format, Args &&...args) {
  return Status::error(ExitCode::BadData, "plan: " + fmt::format(format, std::forward<Args>(args)...) +
                                              "; the file is damaged: compile the model again");
}

} // namespace tapeout::rt
