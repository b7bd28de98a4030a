// Functions compiled for a target (ProgramKernels.h) and run op by op, each kernel on buffers of its own.
#pragma once

#include "codegen/reference/Evaluators.h"
#include "codegen/reference/Interpreter.h"
#include "tests/ops/ProgramKernels.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

#include "llvm/ADT/StringMap.h"

namespace tapeout::ops {

using codegen::reference::Tensor;
using codegen::reference::Values;

class CpuPrograms {
public:
  explicit CpuPrograms(mlir::MLIRContext &context);

  /// Makes a kernel of every op or fusion but reshapes, which are aliases, and products, which the reference interpreter
  /// evaluates. Equal kernels are one. The function must live as long as this. Returns the number of the program.
  size_t add(mlir::func::FuncOp function);
  size_t kernelCount() const { return kernels_.size(); }

  /// All kernels in one shared object. False, and a diagnostic, where one cannot be compiled.
  bool compile();
  /// The results, or none with a test failure.
  std::vector<Values> run(size_t program, llvm::ArrayRef<Tensor> arguments);

private:
  struct Step {
    mlir::Operation *op;
    size_t kernel; // or kNoKernel
  };
  static constexpr size_t kNoKernel = SIZE_MAX;

  size_t addKernel(mlir::Operation *op);
  bool launch(const Step &step, const llvm::DenseMap<mlir::Value, Values> &values, std::vector<Values> &results);

  mlir::MLIRContext &context_;
  mlir::OwningOpRef<mlir::ModuleOp> plan_;
  llvm::StringMap<size_t> kernels_; // by text
  std::vector<std::pair<mlir::func::FuncOp, std::vector<Step>>> programs_;
  std::unique_ptr<ProgramKernels> compiled_;
};

} // namespace tapeout::ops
