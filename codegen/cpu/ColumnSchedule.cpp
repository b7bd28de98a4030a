#include "codegen/cpu/Schedules.h"
#include "codegen/kernel/ColumnPlan.h"
#include "codegen/kernel/Reducer.h"

using namespace mlir;

namespace tapeout::codegen {
namespace {

constexpr unsigned kAccumulators = 4; // vectors of partial results, to hide the latency of the combination
constexpr int64_t kRowBlock = 128;    // rows whose partial result is computed before it joins the total
using Values = KernelBuilder::Values;

WorkUnits buildLoops(KernelBuilder &kernel, const KernelFrame &frame, ColumnPlan &plan, unsigned laneCount) {
  Reducer reducer{kernel, laneCount};
  SmallVector<int64_t> kept = plan.space.extents(false), reduced = plan.space.extents(true);
  int64_t outer = 1, rows = 1, extent = plan.space.laneExtent(), columns = kAccumulators * laneCount;
  for (int64_t e : kept)
    outer *= e;
  for (int64_t e : reduced)
    rows *= e;
  int64_t blocks = (extent + columns - 1) / columns;
  View result = plan.space.rowMajor(/*withReduced=*/false);

  kernel.loop(frame.begin, frame.end, 1, [&](Value unit) {
    Values keptIndices = kernel.delinearize(kernel.divide(unit, blocks), kept);
    Value block = kernel.remainder(unit, blocks), first = kernel.multiply(block, columns);

    auto reduceBlock = [&](unsigned width) { // columns from `first` on
      unsigned vectors = (width + laneCount - 1) / laneCount;
      auto lanesOf = [&](unsigned vector) { return Lanes{laneCount, std::min(laneCount, width - vector * laneCount)}; };
      auto laneOf = [&](unsigned vector) { return kernel.add(first, kernel.integer(vector * laneCount)); };
      Value allRows = kernel.integer(rows);
      auto reduceRows = [&](Value from, Value to) {
        return kernel.loop(from, to, 1, reducer.neutrals(plan.ops, vectors), [&](Value row, Values partial) {
          Values reducedIndices = kernel.delinearize(row, reduced);
          for (unsigned v = 0; v < vectors; ++v) {
            Values indices = mergeIndices(plan.space, keptIndices, reducedIndices, laneOf(v));
            Values values = plan.expression.emit(kernel, indices, lanesOf(v));
            reducer.accumulate(plan.ops, partial, v, vectors, values, lanesOf(v));
          }
          return partial;
        });
      };
      Values total = kernel.loop(kernel.integer(0), allRows, kRowBlock, reducer.neutrals(plan.ops, vectors),
                                 [&](Value from, Values sums) {
                                   Value to = kernel.minimum(kernel.add(from, kernel.integer(kRowBlock)), allRows);
                                   for (auto [i, part] : llvm::enumerate(reduceRows(from, to)))
                                     sums[i] = reducer.combine(plan.ops[i / vectors], sums[i], part);
                                   return sums;
                                 });
      for (unsigned v = 0; v < vectors; ++v) {
        Values none(reduced.size(), kernel.integer(0));
        Value offset = kernel.linear(0, result.strides, mergeIndices(plan.space, keptIndices, none, laneOf(v)));
        for (auto [number, pointer] : llvm::enumerate(frame.results))
          kernel.store(pointer, tape::elementOf(plan.ops[number].getResult()), offset, total[number * vectors + v],
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
  FailureOr<ColumnPlan> plan = ColumnPlan::make(frame.region);
  if (failed(plan))
    return failure();
  unsigned laneCount = chooseLanes(frame.region);
  plan->expression.emitInvariants(kernel, frame.operands, laneCount);
  return buildLoops(kernel, frame, *plan, laneCount);
}

} // namespace tapeout::codegen
