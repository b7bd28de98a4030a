// The loop structures of kernels on a GPU. Each fills the body of one function; the caller has made the function. The
// order of every sum depends on shapes only.
#pragma once

#include "codegen/cuda/CudaKernelBuilder.h"
#include "ir/plan/Plan.h"
#include "ir/tape/Embedding.h"
#include "ir/tape/Reduction.h"

namespace tapeout::codegen {

/// What a kernel's function is given, and the region that says what to compute.
struct CudaFrame {
  mlir::Block *region;                     // tape ops, ended by tape.yield
  llvm::SmallVector<mlir::Value> operands; // pointers; none where the kernel chooses among them while it runs
  llvm::SmallVector<mlir::Value> results;  // pointers, likewise
  mlir::Value table;                       // of all these pointers, in device memory, where they are chosen or many

  mlir::Operation *terminator() const { return region->getTerminator(); }
  /// The pointer with this number, operands first, from the table.
  mlir::Value pointerOf(CudaKernelBuilder &kernel, mlir::Value number) const {
    return kernel.globalPointer(kernel.loadPointer(table, number));
  }
};

/// How a kernel is launched.
struct LaunchShape {
  int64_t blocks;
  int64_t threads;         // per block
  int64_t resident = 0;    // blocks that a multiprocessor should hold at least, as far as registers go; 0: any number
};

/// Results of one element count, each element computed on its own. A thread computes a few vectors; where a tensor is
/// transposed, a block computes a tile that it reads through shared memory.
mlir::FailureOr<LaunchShape> buildElementwise(CudaKernelBuilder &kernel, const CudaFrame &frame);

/// Reductions over the last dimensions, what is computed before, between and after them, and results of one value per
/// row. A row belongs to a part of a warp, to a warp, or to a block, by its length; rows that fit are kept in registers.
/// Bands of rows (tape::bandsOf) may be reduced besides: a block computes a band, or some of its columns.
mlir::FailureOr<LaunchShape> buildRows(CudaKernelBuilder &kernel, const CudaFrame &frame);

/// Reductions over the same other dimensions of computed tensors, and nothing else. A block has up to 256 columns and
/// several threads for each, which take rows in turn; one thread for each in a band.
mlir::FailureOr<LaunchShape> buildColumns(CudaKernelBuilder &kernel, const CudaFrame &frame);

/// Ops that move whole rows. embedding: a row is NaN where an id is outside the table, so that the loss reports it.
mlir::FailureOr<LaunchShape> buildRowMovement(CudaKernelBuilder &kernel, const CudaFrame &frame, mlir::Operation *op);

/// One block for each 256 ids. Operand and results are the op's.
LaunchShape buildSortIds(CudaKernelBuilder &kernel, const CudaFrame &frame, tape::SortIdsOp op);
/// A block computes one piece, or one row, or some of its columns. Operands are those of the op.
LaunchShape buildSumSortedPieces(CudaKernelBuilder &kernel, const CudaFrame &frame, tape::SumSortedPiecesOp op);
LaunchShape buildSumSortedRows(CudaKernelBuilder &kernel, const CudaFrame &frame, tape::SumSortedRowsOp op);

/// The same elementwise computation for `tensors` tensors of any sizes, as tape.fusion states it. A block computes 4,096
/// elements of one tensor. Needs the table.
mlir::FailureOr<LaunchShape> buildMultiTensor(CudaKernelBuilder &kernel, const CudaFrame &frame, int64_t tensors);

/// Sums of parts (tape::sumsParts) of many tensors. A block computes 32 columns of one. Needs the table.
LaunchShape buildPartSums(CudaKernelBuilder &kernel, const CudaFrame &frame);

/// A block computes one part. Needs the table.
LaunchShape buildSumOfSquaresParts(CudaKernelBuilder &kernel, const CudaFrame &frame, tape::SumOfSquaresPartsOp op);

/// The most lanes, up to `most`, that vectors along a dimension of this extent have: a power of two that divides it. 1
/// where some tensor of more than one element is f64: the vector math is f32.
unsigned chooseLanes(mlir::Block *region, int64_t extent, unsigned most);
/// Lanes of 16 bytes of the widest elements of the largest tensors, but for bools: neighbouring threads then read and write
/// neighbouring bytes. More would leave gaps between them.
unsigned lanesOf16Bytes(mlir::Block *region);

} // namespace tapeout::codegen
