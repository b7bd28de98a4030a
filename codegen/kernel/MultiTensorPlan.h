// What a kernel over many tensors does: the same elementwise computation for each of them. Code is made for the first
// tensor; where it reads and writes comes from tables.
#pragma once

#include "codegen/kernel/Expression.h"
#include "codegen/kernel/Schedule.h"

namespace tapeout::codegen {

struct MultiTensorPlan {
  TensorBody first;
  llvm::SmallVector<int64_t> sizes;           // of each tensor, in elements
  llvm::SmallVector<int64_t> argumentNumbers; // of each tensor's arguments, as many as first has, tensor after tensor
  Expression vectors, scalars;                // the results of first, to be emitted with several lanes and with one

  /// Fails, with a message on the op, where the computation is not elementwise.
  static mlir::FailureOr<MultiTensorPlan> make(mlir::Block *region, int64_t tensors);
};

} // namespace tapeout::codegen
