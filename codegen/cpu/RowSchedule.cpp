// Kernels that work row by row: reductions over the last dimensions together with what is computed before, between and
// after them (softmax, normalisation, cross entropy). A unit is a row. Each level of reductions is one pass over the
// row, which computes its operands anew from the kernel's inputs: a row stays in the nearest cache, memory is read once.
#include "codegen/cpu/Expression.h"
#include "codegen/cpu/Reducer.h"
#include "codegen/cpu/Schedules.h"

using namespace mlir;

namespace tapeout::codegen {
namespace {

constexpr unsigned kAccumulators = 4; // vectors of partial results, to hide the latency of the combination
using Values = KernelBuilder::Values;

/// Reductions whose operands need only those of earlier levels.
SmallVector<SmallVector<tape::ReduceOp>> orderByLevel(Block *region) {
  SmallVector<SmallVector<tape::ReduceOp>> levels;
  llvm::DenseMap<Operation *, unsigned> levelOf; // how many levels must be known before the op
  for (Operation &op : region->without_terminator()) {
    unsigned level = 0;
    for (Value operand : op.getOperands())
      if (Operation *producer = operand.getDefiningOp())
        level = std::max(level, levelOf[producer]);
    if (auto reduce = dyn_cast<tape::ReduceOp>(op)) {
      if (levels.size() <= level)
        levels.resize(level + 1);
      levels[level].push_back(reduce);
      ++level;
    }
    levelOf[&op] = level;
  }
  return levels;
}

/// One pass over a row.
struct Pass {
  SmallVector<tape::ReduceOp> reductions; // whose operands are the roots; none: the roots are stored
  SmallVector<Value> roots;
  SmallVector<Value> pointers; // where roots are stored
  std::optional<Expression> expression;
};

class RowKernel {
public:
  RowKernel(KernelBuilder &kernel, const KernelFrame &frame, IterationSpace space)
      : kernel_(kernel), frame_(frame), space_(std::move(space)), reducer_{kernel, chooseLanes(frame.region)} {}

  LogicalResult plan() {
    for (auto &level : orderByLevel(frame_.region)) {
      Pass pass{level, {}, {}, std::nullopt};
      for (tape::ReduceOp op : level)
        pass.roots.push_back(op.getOperand());
      reductions_.push_back(std::move(pass));
    }
    for (auto [result, pointer] : llvm::zip(frame_.terminator()->getOperands(), frame_.results)) {
      Pass &pass = tape::elementCount(result.getType()) == space_.elementCount() ? elements_ : rows_;
      pass.roots.push_back(result);
      pass.pointers.push_back(pointer);
    }
    // An access of one pass may cut the space, which changes the views of all.
    size_t dimensions;
    do {
      dimensions = space_.dimensions().size();
      for (Pass *pass : passes()) {
        FailureOr<Expression> expression = Expression::build(pass->roots, space_);
        if (failed(expression))
          return failure();
        pass->expression = std::move(*expression);
      }
    } while (space_.dimensions().size() != dimensions);
    return success();
  }

  WorkUnits emit() {
    for (const Dimension &dimension : space_.dimensions().drop_back())
      (dimension.reduced ? middle_ : kept_).push_back(dimension.extent);
    for (Pass *pass : passes())
      pass->expression->emitInvariants(kernel_, frame_.operands, reducer_.laneCount);
    kernel_.loop(frame_.begin, frame_.end, 1, [&](Value row) {
      Values keptIndices = kernel_.delinearize(row, kept_);
      for (Pass &pass : reductions_)
        for (auto [op, total] : llvm::zip(pass.reductions, reduce(pass, keptIndices)))
          provide(op.getResult(), kernel_.splat(kernel_.round(total, tape::elementOf(op.getResult())), reducer_.laneCount));
      if (!elements_.roots.empty())
        storeElements(keptIndices);
      if (!rows_.roots.empty())
        storeRow(row, keptIndices);
    });
    int64_t rows = 1, columns = space_.laneExtent();
    for (int64_t extent : kept_)
      rows *= extent;
    for (int64_t extent : middle_)
      columns *= extent;
    return {rows, columns * static_cast<int64_t>(passes().size())};
  }

private:
  SmallVector<Pass *> passes() {
    SmallVector<Pass *> all;
    for (Pass &pass : reductions_)
      all.push_back(&pass);
    for (Pass *pass : {&elements_, &rows_})
      if (!pass->roots.empty())
        all.push_back(pass);
    return all;
  }

  void provide(Value reduction, Value lanes) {
    for (Pass *pass : passes())
      pass->expression->provide(reduction, lanes);
  }

  // Indices of the space from those of its kept and its reduced dimensions (all but the last) and of the last.
  Values merge(ArrayRef<Value> kept, ArrayRef<Value> reduced, Value lane) const {
    Values indices;
    for (const Dimension &dimension : space_.dimensions().drop_back()) {
      ArrayRef<Value> &from = dimension.reduced ? reduced : kept;
      indices.push_back(from.front());
      from = from.drop_front();
    }
    indices.push_back(lane);
    return indices;
  }

  int64_t middleCount() const {
    int64_t count = 1;
    for (int64_t extent : middle_)
      count *= extent;
    return count;
  }

  // One value for each reduction of the pass.
  Values reduce(Pass &pass, ArrayRef<Value> keptIndices) {
    int64_t extent = space_.laneExtent(), lanes = reducer_.laneCount, step = kAccumulators * lanes;
    int64_t stepped = extent / step * step, whole = extent / lanes * lanes;
    auto reducePiece = [&](Value number, Values partial) {
      Values middleIndices = kernel_.delinearize(number, middle_);
      auto take = [&](Values &into, unsigned which, Value lane, unsigned active) {
        Lanes some{reducer_.laneCount, active};
        Values values = pass.expression->emit(kernel_, merge(keptIndices, middleIndices, lane), some);
        reducer_.accumulate(pass.reductions, into, which, kAccumulators, values, some);
      };
      if (stepped > 0)
        partial = kernel_.loop(kernel_.integer(0), kernel_.integer(stepped), step, partial, [&](Value lane, Values into) {
          for (unsigned which = 0; which < kAccumulators; ++which)
            take(into, which, kernel_.add(lane, kernel_.integer(which * lanes)), lanes);
          return into;
        });
      if (stepped < whole)
        partial = kernel_.loop(kernel_.integer(stepped), kernel_.integer(whole), lanes, partial, [&](Value lane, Values into) {
          take(into, 0, lane, lanes);
          return into;
        });
      if (whole < extent)
        take(partial, 1, kernel_.integer(whole), extent - whole);
      return partial;
    };
    Values partial = reducer_.neutrals(pass.reductions, kAccumulators);
    if (middleCount() == 1)
      partial = reducePiece(kernel_.integer(0), partial);
    else
      partial = kernel_.loop(kernel_.integer(0), kernel_.integer(middleCount()), 1, partial, reducePiece);

    Values totals;
    for (auto [number, op] : llvm::enumerate(pass.reductions)) {
      auto combine = [&, op = op](Value a, Value b) { return reducer_.combine(op, a, b); };
      ArrayRef<Value> p = ArrayRef<Value>(partial).slice(number * kAccumulators, kAccumulators);
      totals.push_back(kernel_.combineLanes(combine(combine(p[0], p[1]), combine(p[2], p[3])), combine));
    }
    return totals;
  }

  void storeElements(ArrayRef<Value> keptIndices) {
    View rowMajor = space_.rowMajor();
    kernel_.loop(kernel_.integer(0), kernel_.integer(middleCount()), 1, [&](Value number) {
      Values middleIndices = kernel_.delinearize(number, middle_);
      kernel_.vectors(space_.laneExtent(), reducer_.laneCount, [&](Value lane, Lanes lanes) {
        Values indices = merge(keptIndices, middleIndices, lane);
        Value offset = kernel_.linear(0, rowMajor.strides, indices);
        Values values = elements_.expression->emit(kernel_, indices, lanes);
        for (auto [root, pointer, value] : llvm::zip_equal(elements_.roots, elements_.pointers, values))
          kernel_.store(pointer, tape::elementOf(root), offset, value, lanes);
      });
    });
  }

  void storeRow(Value row, ArrayRef<Value> keptIndices) {
    Values none(middle_.size(), kernel_.integer(0));
    Lanes first{reducer_.laneCount, 1};
    Values values = rows_.expression->emit(kernel_, merge(keptIndices, none, kernel_.integer(0)), first);
    for (auto [root, pointer, value] : llvm::zip_equal(rows_.roots, rows_.pointers, values))
      kernel_.store(pointer, tape::elementOf(root), row, value, first);
  }

  KernelBuilder &kernel_;
  const KernelFrame &frame_;
  IterationSpace space_;
  Reducer reducer_;
  std::vector<Pass> reductions_;
  Pass elements_, rows_;
  SmallVector<int64_t> kept_, middle_; // extents of all dimensions but the last
};

} // namespace

FailureOr<WorkUnits> buildRows(KernelBuilder &kernel, const KernelFrame &frame) {
  tape::ReduceOp first;
  for (Operation &op : frame.region->without_terminator())
    if (auto reduce = dyn_cast<tape::ReduceOp>(op)) {
      if (first && tape::elementCount(reduce.getOperand().getType()) != tape::elementCount(first.getOperand().getType()))
        return reduce.emitError("reductions of one row kernel must have operands of one size");
      first = first ? first : reduce;
    }
  // Without reductions, the sizes of the results tell what a row is.
  uint64_t rows = UINT64_MAX, elements = 0;
  for (Value result : frame.terminator()->getOperands()) {
    rows = std::min(rows, tape::elementCount(result.getType()));
    elements = std::max(elements, tape::elementCount(result.getType()));
  }
  if (first) {
    rows = tape::elementCount(first.getResult().getType());
    elements = tape::elementCount(first.getOperand().getType());
  }
  RowKernel rowKernel(kernel, frame, IterationSpace({Dimension{int64_t(rows), false}, Dimension{int64_t(elements / rows), true}}));
  if (failed(rowKernel.plan()))
    return failure();
  return rowKernel.emit();
}

} // namespace tapeout::codegen
