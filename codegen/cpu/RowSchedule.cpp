// Rows: a unit is a row. Each pass computes its operands anew from the kernel's inputs: a row stays in the nearest cache,
// memory is read once.
#include "codegen/cpu/Schedules.h"
#include "codegen/kernel/Reducer.h"
#include "codegen/kernel/RowPlan.h"

using namespace mlir;

namespace tapeout::codegen {
namespace {

constexpr unsigned kAccumulators = 4; // vectors of partial results, to hide the latency of the combination
using Values = KernelBuilder::Values;

class RowKernel {
public:
  RowKernel(KernelBuilder &kernel, const KernelFrame &frame, RowPlan &plan)
      : kernel_(kernel), frame_(frame), plan_(plan), space_(plan.space()), reducer_{kernel, chooseLanes(frame.region)},
        middle_(space_.extents(true)) {}

  WorkUnits emit() {
    for (RowPass *pass : plan_.passes())
      pass->expression->emitInvariants(kernel_, frame_.operands, reducer_.laneCount);
    SmallVector<int64_t> kept = space_.extents(false);
    kernel_.loop(frame_.begin, frame_.end, 1, [&](Value row) {
      Values keptIndices = kernel_.delinearize(row, kept);
      for (RowPass &pass : plan_.levels())
        for (auto [op, total] : llvm::zip(pass.reductions, reduce(pass, keptIndices)))
          plan_.provide(op, kernel_.splat(kernel_.round(total, tape::elementOf(op.getResult())), reducer_.laneCount));
      if (!plan_.elements().roots.empty())
        storeElements(keptIndices);
      if (!plan_.rows().roots.empty())
        storeRow(row, keptIndices);
    });
    return {plan_.rowCount(), plan_.rowLength() * static_cast<int64_t>(plan_.passes().size())};
  }

private:
  int64_t middleCount() const {
    int64_t count = 1;
    for (int64_t extent : middle_)
      count *= extent;
    return count;
  }

  // One value for each reduction of the pass.
  Values reduce(RowPass &pass, ArrayRef<Value> keptIndices) {
    int64_t extent = space_.laneExtent(), lanes = reducer_.laneCount, step = kAccumulators * lanes;
    int64_t stepped = extent / step * step, whole = extent / lanes * lanes;
    auto reducePiece = [&](Value number, Values partial) {
      Values middleIndices = kernel_.delinearize(number, middle_);
      auto take = [&](Values &into, unsigned which, Value lane, unsigned active) {
        Lanes some{reducer_.laneCount, active};
        Values values = pass.expression->emit(kernel_, mergeIndices(space_, keptIndices, middleIndices, lane), some);
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

  Type elementOf(unsigned result) const { return tape::elementOf(frame_.terminator()->getOperand(result)); }

  void storeElements(ArrayRef<Value> keptIndices) {
    RowPass &pass = plan_.elements();
    View rowMajor = space_.rowMajor();
    kernel_.loop(kernel_.integer(0), kernel_.integer(middleCount()), 1, [&](Value number) {
      Values middleIndices = kernel_.delinearize(number, middle_);
      kernel_.vectors(space_.laneExtent(), reducer_.laneCount, [&](Value lane, Lanes lanes) {
        Values indices = mergeIndices(space_, keptIndices, middleIndices, lane);
        Value offset = kernel_.linear(0, rowMajor.strides, indices);
        for (auto [result, value] : llvm::zip_equal(pass.results, pass.expression->emit(kernel_, indices, lanes)))
          kernel_.store(frame_.results[result], elementOf(result), offset, value, lanes);
      });
    });
  }

  void storeRow(Value row, ArrayRef<Value> keptIndices) {
    RowPass &pass = plan_.rows();
    Values none(middle_.size(), kernel_.integer(0));
    Lanes first{reducer_.laneCount, 1};
    Values values = pass.expression->emit(kernel_, mergeIndices(space_, keptIndices, none, kernel_.integer(0)), first);
    for (auto [result, value] : llvm::zip_equal(pass.results, values))
      kernel_.store(frame_.results[result], elementOf(result), row, value, first);
  }

  KernelBuilder &kernel_;
  const KernelFrame &frame_;
  RowPlan &plan_;
  const IterationSpace &space_;
  Reducer reducer_;
  SmallVector<int64_t> middle_; // extents of the reduced dimensions but the last
};

} // namespace

FailureOr<WorkUnits> buildRows(KernelBuilder &kernel, const KernelFrame &frame) {
  FailureOr<RowPlan> plan = RowPlan::make(frame.region);
  if (failed(plan))
    return failure();
  return RowKernel(kernel, frame, *plan).emit();
}

} // namespace tapeout::codegen
