#include "codegen/cpu/Expression.h"
#include "codegen/cpu/Schedules.h"
#include "ir/tape/Tape.h"

using namespace mlir;

namespace tapeout::codegen {

static constexpr int64_t kChunk = 4096; // elements of a unit, at most; a multiple of the lane count

unsigned chooseLanes(Block *region) {
  bool any = false;
  auto scalarOnly = [&](Type type) {
    any |= tape::elementCount(type) > 1;
    return tape::elementCount(type) > 1 && cast<RankedTensorType>(type).getElementType().isF64();
  };
  for (Operation &op : *region) {
    auto access = dyn_cast<tape::AccessOpInterface>(op);
    for (Type type : op.getOperandTypes()) // a single element may come from anywhere, the config vector too
      if (!(access && tape::elementCount(op.getResult(0).getType()) == 1) && scalarOnly(type))
        return 1;
  }
  return any ? 16 : 1;
}

FailureOr<WorkUnits> buildElementwise(KernelBuilder &kernel, const KernelFrame &frame) {
  ValueRange roots = frame.terminator()->getOperands();
  int64_t elements = tape::elementCount(roots.front().getType());
  for (Value root : roots)
    if (static_cast<int64_t>(tape::elementCount(root.getType())) != elements)
      return frame.terminator()->emitError("results of one kernel must have the same number of elements");

  IterationSpace space(Dimension{elements, false});
  FailureOr<Expression> expression = Expression::build(roots, space);
  if (failed(expression))
    return failure();
  unsigned laneCount = chooseLanes(frame.region);
  expression->emitInvariants(kernel, frame.operands, laneCount);

  SmallVector<int64_t> extents;
  for (const Dimension &dimension : space.dimensions().drop_back())
    extents.push_back(dimension.extent);
  int64_t rows = 1, extent = space.laneExtent(), whole = extent / laneCount * laneCount;
  for (int64_t outer : extents)
    rows *= outer;
  int64_t chunks = (extent + kChunk - 1) / kChunk;

  View rowMajor = space.rowMajor();
  auto compute = [&](KernelBuilder::Values indices, Value lane, unsigned active) {
    indices.push_back(lane);
    Lanes lanes{laneCount, active};
    Value offset = kernel.linear(0, rowMajor.strides, indices);
    for (auto [pointer, value] : llvm::zip_equal(frame.results, expression->emit(kernel, indices, lanes)))
      kernel.store(pointer, offset, value, lanes);
  };
  kernel.loop(frame.begin, frame.end, 1, [&](Value unit) {
    Value row = kernel.divide(unit, chunks), chunk = kernel.remainder(unit, chunks);
    KernelBuilder::Values indices = kernel.delinearize(row, extents);
    Value from = kernel.multiply(chunk, kChunk), wholeEnd = kernel.integer(whole);
    Value to = chunks == 1 ? wholeEnd : kernel.minimum(kernel.add(from, kernel.integer(kChunk)), wholeEnd);
    if (whole > 0)
      kernel.loop(from, to, laneCount, [&](Value lane) { compute(indices, lane, laneCount); });
    if (whole < extent) {
      auto tail = [&] { compute(indices, wholeEnd, extent - whole); };
      if (chunks == 1)
        tail();
      else
        kernel.ifThen(kernel.equal(chunk, chunks - 1), tail);
    }
  });
  return WorkUnits{rows * chunks, std::min(extent, kChunk)};
}

} // namespace tapeout::codegen
