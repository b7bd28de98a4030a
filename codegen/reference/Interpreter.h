// The reference interpreter: runs a function of tape ops directly, slowly and obviously right. It is the oracle of the
// tests and `tapeout interpret`.
//
// Numbers are doubles. With Precision::F32 every scalar operation is rounded to its type, and sums (reductions,
// products, gradients of embeddings) are formed in double and rounded once. With Precision::F64 all floating-point
// types are taken as f64: nothing is rounded, and constants keep all their digits.
#pragma once

#include "codegen/reference/Evaluators.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/OwningOpRef.h"

#include "llvm/ADT/DenseMap.h"

namespace tapeout::codegen::reference {

/// Integers are exact up to 2^53 (i64 seeds and counters too); i1 is 0 or 1.
struct Tensor {
  mlir::Type elementType;
  std::vector<int64_t> shape;
  std::vector<double> values; // row-major
};

enum class Precision { F32, F64 };

class Interpreter {
public:
  /// Prepares `function` (one block of tape ops, fusions allowed), which is copied and decomposed, not changed.
  /// Errors are diagnostics at the op: one that draws random numbers without a key, or that has no evaluator.
  static mlir::FailureOr<Interpreter> create(mlir::func::FuncOp function, Precision precision);

  /// Arguments must have the function's types; floats are rounded to theirs on entry. Results have the types of the
  /// function. Errors are diagnostics: an argument of another type, an embedding id outside its table.
  mlir::FailureOr<std::vector<Tensor>> run(llvm::ArrayRef<Tensor> arguments) const;

private:
  struct Step {
    Evaluator evaluate;
    std::vector<unsigned> inputs, outputs; // slots
    std::vector<size_t> outputSizes;
    std::vector<unsigned> lastUses; // slots to free afterwards
  };

  mlir::LogicalResult prepareBlock(mlir::Block &block);
  mlir::LogicalResult prepareOp(mlir::Operation *op);
  void findLastUses();

  mlir::OwningOpRef<mlir::func::FuncOp> function_; // the copy: widened and decomposed
  mlir::FunctionType type_;                        // of the original
  llvm::DenseMap<mlir::Value, unsigned> slots_;
  unsigned slotCount_ = 0;
  std::vector<Step> steps_;
  std::vector<unsigned> results_; // slots
};

} // namespace tapeout::codegen::reference
