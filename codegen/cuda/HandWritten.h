// Kernels that are written by hand, in C++ for the GPU (codegen/cuda/device/). The build compiles them to LLVM IR; here
// they are specialised for the tensors of one kernel of the plan. They use instructions that only Hopper GPUs have:
// sm_90a.
#pragma once

#include "codegen/cuda/CudaCodegen.h"
#include "codegen/cuda/Ptx.h"
#include "ir/plan/Plan.h"

#include <memory>

namespace llvm {
class LLVMContext;
class Module;
} // namespace llvm

namespace tapeout::codegen {

/// A kernel of schedule HandWritten and the module of its own that it lies in.
struct HandWrittenKernel {
  std::unique_ptr<llvm::Module> module;
  CudaKernel kernel; // but the number of its module
  LaunchBound bound;
};

/// Errors are reported on the kernel.
mlir::FailureOr<HandWrittenKernel> buildHandWritten(plan::KernelOp kernel, llvm::LLVMContext &context);

} // namespace tapeout::codegen
