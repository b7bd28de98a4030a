#include "codegen/kernel/RowPlan.h"

#include "ir/tape/Tape.h"

using namespace mlir;

namespace tapeout::codegen {
namespace {

/// Reductions whose operands need only those of earlier levels.
SmallVector<SmallVector<tape::ReduceOp>> orderByLevel(Block *region) {
  SmallVector<SmallVector<tape::ReduceOp>> levels;
  llvm::DenseMap<Operation *, unsigned> levelOf; // how many levels must be known before the op
  for (Operation &op : region->without_terminator()) {
    unsigned level = 0;
    for (Value operand : op.getOperands())
      if (Operation *producer = operand.getDefiningOp())
        level = std::max(level, levelOf[producer]);
    if (auto reduce = dyn_cast<tape::ReduceOp>(op); reduce && tape::reducesRows(reduce)) {
      if (levels.size() <= level)
        levels.resize(level + 1);
      levels[level].push_back(reduce);
      ++level;
    }
    levelOf[&op] = level;
  }
  return levels;
}

} // namespace

FailureOr<RowPlan> RowPlan::make(Block *region) {
  tape::ReduceOp first;
  std::optional<tape::Bands> bands;
  for (Operation &op : region->without_terminator())
    if (auto reduce = dyn_cast<tape::ReduceOp>(op)) {
      if (!tape::reducesRows(reduce)) {
        if (std::optional<tape::Bands> own = tape::bandsOf(reduce); !own || (bands && *own != *bands))
          return reduce.emitError("columns that a row kernel reduces must all be those of the same bands of rows");
        bands = tape::bandsOf(reduce);
        continue;
      }
      if (first && tape::elementCount(reduce.getOperand().getType()) != tape::elementCount(first.getOperand().getType()))
        return reduce.emitError("reductions of one row kernel must have operands of one size");
      first = first ? first : reduce;
    }
  // Without reductions, the sizes of the results tell what a row is.
  uint64_t rows = UINT64_MAX, elements = 0;
  for (Value result : region->getTerminator()->getOperands()) {
    rows = std::min(rows, tape::elementCount(result.getType()));
    elements = std::max(elements, tape::elementCount(result.getType()));
  }
  if (first) {
    rows = tape::elementCount(first.getResult().getType());
    elements = tape::elementCount(first.getOperand().getType());
  }
  if (bands) {
    rows = bands->bands * bands->rows;
    elements = rows * bands->columns;
    if (first && (tape::elementCount(first.getResult().getType()) != rows ||
                  tape::elementCount(first.getOperand().getType()) != elements))
      return first.emitError("a row kernel must reduce bands of its own rows");
  }
  RowPlan plan(IterationSpace({Dimension{int64_t(rows), false}, Dimension{int64_t(elements / rows), true}}), rows);
  if (failed(plan.build(region)))
    return failure();
  return plan;
}

LogicalResult RowPlan::build(Block *region) {
  for (auto &level : orderByLevel(region)) {
    RowPass pass{level, {}, {}, std::nullopt};
    for (tape::ReduceOp op : level)
      pass.roots.push_back(op.getOperand());
    levels_.push_back(std::move(pass));
  }
  for (auto [number, result] : llvm::enumerate(region->getTerminator()->getOperands())) {
    auto reduce = result.getDefiningOp<tape::ReduceOp>();
    bool isBands = reduce && !tape::reducesRows(reduce);
    RowPass &pass = isBands ? bands_ : tape::elementCount(result.getType()) == space_.elementCount() ? elements_ : rows_;
    pass.roots.push_back(isBands ? reduce.getOperand() : result);
    pass.results.push_back(number);
    if (isBands)
      pass.reductions.push_back(reduce);
  }
  // An access of one pass may cut the space, which changes the views of all.
  size_t dimensions;
  do {
    dimensions = space_.dimensions().size();
    for (RowPass *pass : passes()) {
      FailureOr<Expression> expression = Expression::build(pass->roots, space_);
      if (failed(expression))
        return failure();
      pass->expression = std::move(*expression);
    }
  } while (space_.dimensions().size() != dimensions);
  return success();
}

SmallVector<RowPass *> RowPlan::passes() {
  SmallVector<RowPass *> all;
  for (RowPass &pass : levels_)
    all.push_back(&pass);
  for (RowPass *pass : {&elements_, &rows_, &bands_})
    if (!pass->roots.empty())
      all.push_back(pass);
  return all;
}

std::optional<tape::Bands> RowPlan::bandShape() {
  return bands_.reductions.empty() ? std::nullopt : tape::bandsOf(bands_.reductions.front());
}

void RowPlan::provide(tape::ReduceOp reduction, Value lanes) {
  for (RowPass *pass : passes())
    pass->expression->provide(reduction.getResult(), lanes);
}

} // namespace tapeout::codegen
