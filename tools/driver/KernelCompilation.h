// The kernels of a plan, compiled for the target of a compile.
#pragma once

#include "codegen/PlanWriter.h"
#include "tools/driver/Compiler.h"

namespace tapeout::driver {

/// What the plan and the executable need of the compiled kernels.
struct CompiledKernels {
  std::vector<codegen::KernelRecord> records;
  std::string sharedObject;                   ///< cpu
  std::vector<codegen::ModuleRecord> modules; ///< cuda
  std::string assembler;                      ///< cuda: what made the machine code
  uint64_t workspaceBytes = 0;                ///< cuda
};

/// Errors (a failure) are diagnostics.
mlir::FailureOr<CompiledKernels> compileKernels(mlir::ModuleOp plan, const CompileOptions &options);

} // namespace tapeout::driver
