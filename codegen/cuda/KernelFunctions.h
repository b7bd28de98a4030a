// Builds the functions of kernels, before they are lowered to LLVM IR.
#pragma once

#include "codegen/cuda/CudaCodegen.h"
#include "codegen/cuda/Ptx.h"

namespace tapeout::codegen {

/// A module of kernel functions. The same for every architecture.
struct KernelFunctions {
  mlir::OwningOpRef<mlir::ModuleOp> module;
  std::vector<LaunchBound> bounds;
};

/// Appends the functions of all kernels, but those written by hand, to `parts`, in turn.
mlir::FailureOr<std::vector<CudaKernel>> buildCudaFunctions(mlir::ModuleOp planModule,
                                                            llvm::MutableArrayRef<KernelFunctions> parts);

} // namespace tapeout::codegen
