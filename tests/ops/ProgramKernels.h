// The kernels of CpuPrograms, compiled and run for one target: each has its own source file behind this header.
#pragma once

#include "mlir/IR/BuiltinOps.h"

#include <memory>

namespace tapeout::ops {

class ProgramKernels {
public:
  virtual ~ProgramKernels() = default;
  static const char *target();
  /// All plan.kernel ops of the module. Null, with a diagnostic, where one cannot be compiled.
  static std::unique_ptr<ProgramKernels> compile(mlir::ModuleOp plan);
  /// Runs kernel `number` of the module on these buffers of `sizes` bytes, aligned to 64: operands, then results.
  virtual bool run(size_t number, llvm::ArrayRef<void *> arguments, llvm::ArrayRef<size_t> sizes) = 0;
};

} // namespace tapeout::ops
