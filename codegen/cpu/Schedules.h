// The loop structures of kernels. Each fills the body of one function; the caller has made the function.
#pragma once

#include "codegen/kernel/KernelBuilder.h"
#include "ir/plan/Plan.h"

namespace tapeout::tape {
class SumOfSquaresPartsOp;
}

namespace tapeout::codegen {

/// What a kernel's function is given, and the region that says what to compute.
struct KernelFrame {
  mlir::Block *region;                     // tape ops, ended by tape.yield
  llvm::SmallVector<mlir::Value> operands; // pointers
  llvm::SmallVector<mlir::Value> results;  // pointers
  mlir::Value arguments;                   // the table of all these pointers
  mlir::Value begin, end;                  // units to compute

  mlir::Operation *terminator() const { return region->getTerminator(); }
};

/// How a kernel may be divided among threads.
struct WorkUnits {
  int64_t count;
  int64_t elements; // computed or moved by one unit
};

/// Results of one element count, each element computed on its own. Units are rows of the last dimension, in chunks.
mlir::FailureOr<WorkUnits> buildElementwise(KernelBuilder &kernel, const KernelFrame &frame);

/// The same for the epilogue of a product: units are 64 columns of one of its rows, row by row.
mlir::FailureOr<WorkUnits> buildEpilogue(KernelBuilder &kernel, const KernelFrame &frame, int64_t columns);

/// Results with one element per element of a row, and such with one per row: reductions over the last dimensions, with
/// what is computed before, between and after them. A unit is a row; 64 partial results by element index, combined by one fixed
/// tree.
mlir::FailureOr<WorkUnits> buildRows(KernelBuilder &kernel, const KernelFrame &frame);

/// Reductions over the same other dimensions of computed tensors, and nothing else. A unit is 64 columns; rows in order,
/// blocks of 128 rows first, which keeps long sums accurate.
mlir::FailureOr<WorkUnits> buildColumns(KernelBuilder &kernel, const KernelFrame &frame);

/// Ops that move whole rows: embedding, embedding_grad, concatenate.
///   embedding: a row is NaN where an id is outside the table, so that the loss reports it.
///   embedding_grad: a unit is 64 columns of the table; ids in order; ids outside the table are skipped.
mlir::FailureOr<WorkUnits> buildRowMovement(KernelBuilder &kernel, const KernelFrame &frame, mlir::Operation *op);

/// The same elementwise computation for `tensors` tensors of any sizes, as tape.fusion states it. Units are 4,096 elements
/// of one tensor.
mlir::FailureOr<WorkUnits> buildMultiTensor(KernelBuilder &kernel, const KernelFrame &frame, int64_t tensors);

/// sum_of_squares_parts: a unit is one part; 64 partial sums by element index, combined by one fixed tree.
WorkUnits buildSumOfSquaresParts(KernelBuilder &kernel, const KernelFrame &frame, tape::SumOfSquaresPartsOp op);

/// 1 where some tensor of more than one element is f64 (the vector math is f32) or nothing has 16 elements, else 16.
unsigned chooseLanes(mlir::Block *region);

} // namespace tapeout::codegen
