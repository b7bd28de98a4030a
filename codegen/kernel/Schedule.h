// Which loop structure runs a kernel, and what the structures of all targets know about it.
#pragma once

#include "ir/plan/Plan.h"

namespace tapeout::codegen {

enum class Schedule {
  Elementwise, // results of one element count, each element computed on its own
  Rows,        // reductions over the last dimensions, what is computed around them, results of one value per row
  Columns,     // reductions over other dimensions
  RowMovement, // one op that moves whole rows: embedding, concatenate, ...
  MultiTensor, // the same elementwise computation for tensors of any sizes
  PartSums,    // sums of parts, for many tensors
  HandWritten, // one op, by a kernel of codegen/cuda/device
  Epilogue,    // an elementwise computation on pieces of a product
};

Schedule scheduleOf(plan::KernelOp kernel);

/// The op of a kernel of row movement.
mlir::Operation *movementOf(mlir::Block *region);

/// The ops and results of one of the tensors of a kernel for many.
struct TensorBody {
  llvm::SmallVector<mlir::Operation *> ops;
  llvm::SmallVector<mlir::Value> results;
  llvm::SmallVector<mlir::BlockArgument> arguments; // in order of use, with repetitions
};
llvm::SmallVector<TensorBody> tensorBodies(mlir::Block *region, int64_t tensors);

} // namespace tapeout::codegen
