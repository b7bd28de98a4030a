#include "codegen/cpu/Expression.h"
#include "codegen/cpu/Schedules.h"
#include "ir/tape/Tape.h"

using namespace mlir;

namespace tapeout::codegen {

static constexpr int64_t kChunk = 4096;       // elements of a unit, at most
static constexpr int64_t kEpilogueChunk = 64; // Matmul.epilogue in runtime/plan.fbs
static constexpr int64_t kTile = 16;          // a cache line of floats; kChunk / kTile is a multiple of the lane count

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

// Where `columns` is given, the space has rows of so many elements and units are kEpilogueChunk of them.
static FailureOr<WorkUnits> build(KernelBuilder &kernel, const KernelFrame &frame, std::optional<int64_t> columns) {
  ValueRange roots = frame.terminator()->getOperands();
  int64_t elements = tape::elementCount(roots.front().getType());
  for (Value root : roots)
    if (static_cast<int64_t>(tape::elementCount(root.getType())) != elements)
      return frame.terminator()->emitError("results of one kernel must have the same number of elements");

  IterationSpace space(Dimension{elements, false});
  if (columns)
    space = IterationSpace({Dimension{elements / *columns, false}, Dimension{*columns, false}});
  FailureOr<Expression> expression = Expression::build(roots, space);
  if (failed(expression))
    return failure();
  if (columns && space.laneExtent() != *columns)
    return frame.terminator()->emitError("an epilogue must read whole rows of its product");
  unsigned laneCount = chooseLanes(frame.region);
  expression->emitInvariants(kernel, frame.operands, laneCount);

  // The rows of the last dimension; where a tensor is transposed, kTile of them at a time.
  SmallVector<int64_t> extents;
  for (const Dimension &dimension : space.dimensions().drop_back())
    extents.push_back(dimension.extent);
  std::optional<unsigned> tiled = columns ? std::nullopt : expression->denseDimension();
  int64_t tiledExtent = tiled ? extents[*tiled] : 1, tile = std::min(tiledExtent, kTile);
  if (tiled)
    extents[*tiled] = (tiledExtent + tile - 1) / tile;

  int64_t rows = 1, extent = space.laneExtent(), whole = extent / laneCount * laneCount;
  for (int64_t outer : extents)
    rows *= outer;
  int64_t chunk = columns ? kEpilogueChunk : kChunk / tile, chunks = (extent + chunk - 1) / chunk;

  View rowMajor = space.rowMajor();
  auto compute = [&](KernelBuilder::Values indices, Value lane, unsigned active) {
    indices.push_back(lane);
    auto computeRow = [&] {
      Lanes lanes{laneCount, active};
      Value offset = kernel.linear(0, rowMajor.strides, indices);
      for (auto [root, pointer, value] : llvm::zip_equal(roots, frame.results, expression->emit(kernel, indices, lanes)))
        kernel.store(pointer, tape::elementOf(root), offset, value, lanes);
    };
    if (tile == 1)
      return computeRow();
    Value first = kernel.multiply(indices[*tiled], tile);
    Value last = kernel.minimum(kernel.add(first, kernel.integer(tile)), kernel.integer(tiledExtent));
    kernel.loop(first, last, 1, [&](Value row) {
      indices[*tiled] = row;
      computeRow();
    });
  };
  kernel.loop(frame.begin, frame.end, 1, [&](Value unit) {
    Value row = kernel.divide(unit, chunks), part = kernel.remainder(unit, chunks);
    KernelBuilder::Values indices = kernel.delinearize(row, extents);
    Value from = kernel.multiply(part, chunk), wholeEnd = kernel.integer(whole);
    Value to = chunks == 1 ? wholeEnd : kernel.minimum(kernel.add(from, kernel.integer(chunk)), wholeEnd);
    if (whole > 0)
      kernel.loop(from, to, laneCount, [&](Value lane) { compute(indices, lane, laneCount); });
    if (whole < extent) {
      auto tail = [&] { compute(indices, wholeEnd, extent - whole); };
      if (chunks == 1)
        tail();
      else
        kernel.ifThen(kernel.equal(part, chunks - 1), tail);
    }
  });
  return WorkUnits{rows * chunks, std::min(extent, chunk) * tile};
}

FailureOr<WorkUnits> buildElementwise(KernelBuilder &kernel, const KernelFrame &frame) {
  return build(kernel, frame, std::nullopt);
}
FailureOr<WorkUnits> buildEpilogue(KernelBuilder &kernel, const KernelFrame &frame, int64_t columns) {
  return build(kernel, frame, columns);
}

} // namespace tapeout::codegen
