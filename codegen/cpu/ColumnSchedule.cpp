#include "codegen/cpu/Expression.h"
#include "codegen/cpu/Reducer.h"
#include "codegen/cpu/Schedules.h"

using namespace mlir;

namespace tapeout::codegen {
namespace {

constexpr unsigned kAccumulators = 4; // vectors of partial results, to hide the latency of the combination
constexpr int64_t kRowBlock = 128;    // rows whose partial result is computed before it joins the total
using Values = KernelBuilder::Values;

// The reductions of a kernel over one iteration space.
struct Reduction {
  KernelBuilder &kernel;
  const KernelFrame &frame;
  SmallVector<tape::ReduceOp> ops;
  IterationSpace space;
  Expression expression;
  unsigned laneCount;

  SmallVector<int64_t> extents(bool reduced) const { // of all but the last dimension
    SmallVector<int64_t> result;
    for (const Dimension &dimension : space.dimensions().drop_back())
      if (dimension.reduced == reduced)
        result.push_back(dimension.extent);
    return result;
  }

  // Indices of the space from those of its kept and its reduced dimensions (all but the last) and of the last.
  Values merge(ArrayRef<Value> kept, ArrayRef<Value> reduced, Value lane) const {
    Values indices;
    for (const Dimension &dimension : space.dimensions().drop_back()) {
      ArrayRef<Value> &from = dimension.reduced ? reduced : kept;
      indices.push_back(from.front());
      from = from.drop_front();
    }
    indices.push_back(lane);
    return indices;
  }

  Reducer reducer() const { return {kernel, laneCount}; }

  // Takes the elements from `indices` on into partial result `which` of `count` of each op.
  void accumulate(Values &partial, unsigned which, unsigned count, ValueRange indices, Lanes lanes) const {
    reducer().accumulate(ops, partial, which, count, expression.emit(kernel, indices, lanes), lanes);
  }
};

WorkUnits buildLoops(Reduction &reduction) {
  KernelBuilder &kernel = reduction.kernel;
  unsigned laneCount = reduction.laneCount;
  SmallVector<int64_t> kept = reduction.extents(false), reduced = reduction.extents(true);
  int64_t outer = 1, rows = 1, extent = reduction.space.laneExtent(), columns = kAccumulators * laneCount;
  for (int64_t e : kept)
    outer *= e;
  for (int64_t e : reduced)
    rows *= e;
  int64_t blocks = (extent + columns - 1) / columns;
  View result = reduction.space.rowMajor(/*withReduced=*/false);

  kernel.loop(reduction.frame.begin, reduction.frame.end, 1, [&](Value unit) {
    Values keptIndices = kernel.delinearize(kernel.divide(unit, blocks), kept);
    Value block = kernel.remainder(unit, blocks), first = kernel.multiply(block, columns);

    auto reduceBlock = [&](unsigned width) { // columns from `first` on
      unsigned vectors = (width + laneCount - 1) / laneCount;
      auto lanesOf = [&](unsigned vector) { return Lanes{laneCount, std::min(laneCount, width - vector * laneCount)}; };
      auto laneOf = [&](unsigned vector) { return kernel.add(first, kernel.integer(vector * laneCount)); };
      Value allRows = kernel.integer(rows);
      auto reduceRows = [&](Value from, Value to) {
        return kernel.loop(from, to, 1, reduction.reducer().neutrals(reduction.ops, vectors), [&](Value row, Values partial) {
          Values reducedIndices = kernel.delinearize(row, reduced);
          for (unsigned v = 0; v < vectors; ++v)
            reduction.accumulate(partial, v, vectors, reduction.merge(keptIndices, reducedIndices, laneOf(v)),
                                 lanesOf(v));
          return partial;
        });
      };
      Values total =
          kernel.loop(kernel.integer(0), allRows, kRowBlock, reduction.reducer().neutrals(reduction.ops, vectors), [&](Value from, Values sums) {
            Value to = kernel.minimum(kernel.add(from, kernel.integer(kRowBlock)), allRows);
            for (auto [i, part] : llvm::enumerate(reduceRows(from, to)))
              sums[i] = reduction.reducer().combine(reduction.ops[i / vectors], sums[i], part);
            return sums;
          });
      for (unsigned v = 0; v < vectors; ++v) {
        Values none(reduced.size(), kernel.integer(0));
        Value offset = kernel.linear(0, result.strides, reduction.merge(keptIndices, none, laneOf(v)));
        for (auto [number, pointer] : llvm::enumerate(reduction.frame.results))
          kernel.store(pointer, tape::elementOf(reduction.ops[number].getResult()), offset, total[number * vectors + v],
                       lanesOf(v));
      }
    };
    int64_t rest = extent % columns;
    if (rest == 0)
      reduceBlock(columns);
    else if (blocks == 1)
      reduceBlock(rest);
    else
      kernel.ifElse(
          kernel.equal(block, blocks - 1), [&] { reduceBlock(rest); }, [&] { reduceBlock(columns); });
  });
  return {outer * blocks, rows * std::min(extent, columns)};
}

} // namespace

FailureOr<WorkUnits> buildColumns(KernelBuilder &kernel, const KernelFrame &frame) {
  SmallVector<tape::ReduceOp> ops;
  SmallVector<Value> roots;
  for (Value result : frame.terminator()->getOperands()) {
    auto op = result.getDefiningOp<tape::ReduceOp>();
    bool alike = op && (ops.empty() || (op.getDimensions() == ops.front().getDimensions() &&
                                        tape::shapeOf(op.getOperand()) == tape::shapeOf(roots.front())));
    if (!alike)
      return frame.terminator()->emitError("results of a kernel of column reductions must all reduce the same dimensions");
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
  unsigned laneCount = chooseLanes(frame.region);
  expression->emitInvariants(kernel, frame.operands, laneCount);
  Reduction reduction{kernel, frame, std::move(ops), std::move(space), std::move(*expression), laneCount};
  return buildLoops(reduction);
}

} // namespace tapeout::codegen
