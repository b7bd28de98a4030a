// What a kernel of column reductions does: reductions over the same dimensions of computed tensors, and nothing else.
#pragma once

#include "codegen/kernel/Expression.h"
#include "ir/tape/Reduction.h"

namespace tapeout::codegen {

struct ColumnPlan {
  llvm::SmallVector<tape::ReduceOp> ops; // in the order of the kernel's results
  IterationSpace space;                  // kept dimensions, reduced ones, kept ones; the last one is kept
  Expression expression;                 // its roots are the operands of the ops

  /// Fails, with a message on the op, where the results are not reductions alike.
  static mlir::FailureOr<ColumnPlan> make(mlir::Block *region);
};

} // namespace tapeout::codegen
