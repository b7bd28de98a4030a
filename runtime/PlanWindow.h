// The windows of the plan as the CPU device takes them; PlanCheck and Executor share it.
#pragma once

#include "runtime/device/cpu/Convolution.h"
#include "runtime/plan_generated.h"

namespace tapeout::rt {

inline ConvolutionShape toConvolutionShape(const plan::Window &window) {
  return {window.batch(),
          window.channels(),
          window.filters(),
          {window.height(), window.width(), window.kernel_height(), window.kernel_width(), window.out_height(),
           window.out_width(), window.stride_y(), window.stride_x(), window.pad_top(), window.pad_left()}};
}

/// How many of the arguments a function reads and writes.
struct WindowArguments {
  uint32_t reads, writes;
};
inline WindowArguments argumentsOf(plan::WindowFunction function) {
  switch (function) {
  case plan::WindowFunction::MaxPool: return {1, 2};
  case plan::WindowFunction::AvgPool:
  case plan::WindowFunction::AvgPoolGrad: return {1, 1};
  default: return {2, 1};
  }
}

} // namespace tapeout::rt
