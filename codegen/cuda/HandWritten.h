// Kernels that are written by hand, in C++ for the GPU (codegen/cuda/device/). The build compiles them to LLVM IR; here
// they are specialised for the tensors of one kernel of the plan. They use instructions that only Hopper GPUs have:
// sm_90a.
#pragma once

#include "codegen/cuda/CudaCodegen.h"
#include "codegen/cuda/Ptx.h"
#include "codegen/cuda/device/GeluProduct.h"
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

/// A kernel of device/GeluProduct.cpp. Arguments are matrices with rows behind each other:
/// kTanh, kErf (the forms of GELU): tokens [tokens, inner], weights, bias [features] -> GELU of product and bias, and
/// its slope there, [tokens, features].
/// kScaled: tokens, weights, slope [tokens, features] -> product times slope, and the sums of its columns for each
/// kProductTokens tokens, before rounding: f32 [tiles, features].
struct GeluProduct {
  enum Kind { kTanh, kErf, kScaled } kind;
  bool weightsByInner; // [inner, features]; false: [features, inner]
  bool bf16;           // false: f16
  GeluProductSizes sizes;
};
/// The kernel takes pointers of its five arguments, then a tensor map of each but bias and sums, in that order.
HandWrittenKernel buildGeluProduct(const GeluProduct &product, llvm::StringRef symbol, llvm::LLVMContext &context);

} // namespace tapeout::codegen
