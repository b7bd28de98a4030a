// What a kernel does that works row by row: reductions over the last dimensions together with what is computed before,
// between and after them (softmax, normalisation, cross entropy). Each level of reductions is one pass over the row.
// Reductions of bands of rows may come besides (tape::bandsOf): the gradients of a normalisation's parameters, of a bias.
#pragma once

#include "codegen/kernel/Expression.h"
#include "ir/tape/Reduction.h"

namespace tapeout::codegen {

/// One pass over a row.
struct RowPass {
  llvm::SmallVector<tape::ReduceOp> reductions; // whose operands are the roots; none: the roots are stored
  llvm::SmallVector<mlir::Value> roots;
  llvm::SmallVector<unsigned> results; // which of the kernel's results the roots are
  std::optional<Expression> expression;
};

class RowPlan {
public:
  /// Fails, with a message on the op, where the region has no form as rows.
  static mlir::FailureOr<RowPlan> make(mlir::Block *region);

  const IterationSpace &space() const { return space_; }
  int64_t rowCount() const { return rowCount_; }
  int64_t rowLength() const { return space_.elementCount() / rowCount_; }

  /// The passes in order: reductions, whose operands need only those of earlier levels; then what has an element for each
  /// of a row; then what has one per row. The last two may have no roots.
  std::vector<RowPass> &levels() { return levels_; }
  RowPass &elements() { return elements_; }
  RowPass &rows() { return rows_; }
  /// What is reduced over bands of rows, none or several alike: reductions that are results, and nothing else reads.
  RowPass &bands() { return bands_; }
  std::optional<tape::Bands> bandShape();
  /// All passes that have roots.
  llvm::SmallVector<RowPass *> passes();

  /// What a reduction is in the current row, for all later passes.
  void provide(tape::ReduceOp reduction, mlir::Value lanes);

private:
  explicit RowPlan(IterationSpace space, int64_t rowCount) : space_(std::move(space)), rowCount_(rowCount) {}
  mlir::LogicalResult build(mlir::Block *region);

  IterationSpace space_; // kept dimensions, then reduced ones
  int64_t rowCount_;
  std::vector<RowPass> levels_;
  RowPass elements_, rows_, bands_;
};

} // namespace tapeout::codegen
