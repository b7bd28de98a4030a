// Rows that a block works on in turn, in shared memory: while one row is worked on, the next one is copied over what has been
// read of it. Each thread copies and reads vectors of its own, so that no thread waits for another.
#pragma once

#include "codegen/cuda/CudaKernelBuilder.h"
#include "codegen/kernel/Expression.h"
#include "codegen/kernel/RowPlan.h"

namespace tapeout::codegen {

class StagedRows {
public:
  /// A vector of a row: where it begins in the space, and in the staged copy of each tensor.
  struct Vector {
    KernelBuilder::Values indices;
    mlir::Value place;
  };

  /// `pointers`: of the kernel's operands. Places in shared memory are those of vectors of `lanes` elements.
  StagedRows(CudaKernelBuilder &kernel, llvm::ArrayRef<mlir::Value> pointers, unsigned lanes)
      : kernel_(kernel), pointers_(pointers), lanes_(lanes) {}

  /// Stages a tensor, of which a row has `elements`. The passes, in order, read it from there; then nobody needs it any more.
  void add(mlir::BlockArgument argument, const View &view, llvm::ArrayRef<const RowPass *> readers, int64_t elements);
  /// Whether vectors through the view can be copied: they lie dense and even.
  static bool canStage(const View &view, unsigned lanes);
  bool empty() const { return staged_.empty(); }
  /// Whether nobody needs some tensor's row after this pass.
  bool isLastReader(const RowPass &pass) const;

  /// Starts to copy vectors of the next row over what the pass was the last to read; of every tensor where there is no pass.
  void copy(const RowPass *lastReader, llvm::ArrayRef<Vector> vectors);
  /// What the pass reads at a vector of the row. Copies must have come to their end.
  void read(const RowPass &pass, mlir::Value place, KnownValues &known);

private:
  struct Staged {
    mlir::BlockArgument argument;
    View view;
    llvm::SmallVector<const RowPass *> readers;
    mlir::Value memory;

    mlir::Type element() const;
  };
  void copy(const Staged &staged, llvm::ArrayRef<Vector> vectors);

  CudaKernelBuilder &kernel_;
  llvm::ArrayRef<mlir::Value> pointers_;
  unsigned lanes_;
  llvm::SmallVector<Staged> staged_;
};

} // namespace tapeout::codegen
