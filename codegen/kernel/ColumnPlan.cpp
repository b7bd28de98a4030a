#include "codegen/kernel/ColumnPlan.h"

#include "ir/tape/Tape.h"

using namespace mlir;

namespace tapeout::codegen {

FailureOr<ColumnPlan> ColumnPlan::make(Block *region) {
  SmallVector<tape::ReduceOp> ops;
  SmallVector<Value> roots;
  for (Value result : region->getTerminator()->getOperands()) {
    auto op = result.getDefiningOp<tape::ReduceOp>();
    bool alike = op && (ops.empty() || (op.getDimensions() == ops.front().getDimensions() &&
                                        tape::shapeOf(op.getOperand()) == tape::shapeOf(roots.front())));
    if (!alike)
      return region->getTerminator()->emitError(
          "results of a kernel of column reductions must all reduce the same dimensions");
    ops.push_back(op);
    roots.push_back(op.getOperand());
  }

  // The operand as [outer, reduced, inner].
  int64_t extents[3] = {1, 1, 1};
  ArrayRef<int64_t> dimensions = ops.front().getDimensions();
  for (auto [d, extent] : llvm::enumerate(tape::shapeOf(roots.front())))
    extents[int64_t(d) < dimensions.front() ? 0 : int64_t(d) <= dimensions.back() ? 1 : 2] *= extent;
  // The last dimension stays, also as a single column: it is the one that vectors run along.
  IterationSpace space({{extents[0], false}, {extents[1], true}, {extents[2], false}});
  FailureOr<Expression> expression = Expression::build(roots, space);
  if (failed(expression))
    return failure();
  return ColumnPlan{std::move(ops), std::move(space), std::move(*expression)};
}

} // namespace tapeout::codegen
