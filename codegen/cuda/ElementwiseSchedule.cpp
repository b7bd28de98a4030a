#include "codegen/cuda/Schedules.h"
#include "codegen/kernel/Expression.h"
#include "ir/tape/Tape.h"

#include "mlir/IR/TypeUtilities.h"

using namespace mlir;

namespace tapeout::codegen {
namespace {

using Values = KernelBuilder::Values;
constexpr int64_t kThreads = 256;
constexpr int64_t kManyBlocks = 1024;      // enough for every processor of a GPU; more work per thread only beyond that
constexpr int64_t kMostVectors = 4;        // that a thread computes: their reads are in flight together
constexpr int64_t kRegistersForReads = 64; // of a thread, as f32
constexpr int64_t kTile = 32, kTileThreads = 8; // a tile is 32 x 32 elements; a block has 32 x 8 threads

SmallVector<int64_t> extentsOf(const IterationSpace &space) {
  SmallVector<int64_t> extents;
  for (const Dimension &dimension : space.dimensions())
    extents.push_back(dimension.extent);
  return extents;
}

int64_t vectorsPerThread(int64_t vectors, unsigned lanes, size_t reads) {
  int64_t count = std::clamp<int64_t>(kRegistersForReads / (lanes * std::max<size_t>(reads, 1)), 1, kMostVectors);
  while (count > 1 && vectors < kManyBlocks * kThreads * count)
    count /= 2;
  return count;
}

LaunchShape buildVectors(CudaKernelBuilder &kernel, const CudaFrame &frame, const IterationSpace &space,
                         Expression &expression) {
  unsigned lanes = chooseLanes(frame.region, space.laneExtent(), lanesOf16Bytes(frame.region));
  expression.emitInvariants(kernel, frame.operands, lanes);
  SmallVector<int64_t> extents = extentsOf(space);
  extents.back() /= lanes;
  int64_t vectors = ShapedType::getNumElements(extents), perThread = vectorsPerThread(vectors, lanes, expression.accesses().size());
  int64_t perBlock = kThreads * perThread;
  bool even = vectors % perBlock == 0;

  Value first = kernel.add(kernel.multiply(kernel.blockIndex(), perBlock), kernel.threadIndex());
  View rowMajor = space.rowMajor();
  SmallVector<Values> results;
  Values offsets, isInside;
  for (int64_t i = 0; i < perThread; ++i) {
    Value vector = kernel.add(first, kernel.integer(i * kThreads));
    isInside.push_back(even ? Value() : kernel.less(vector, vectors));
    // Beyond the end, the last vector is computed once more and not stored: all reads stay in one basic block.
    Value place = even ? vector : kernel.minimum(vector, kernel.integer(vectors - 1));
    Values indices = kernel.delinearize(place, extents);
    indices.back() = kernel.multiply(indices.back(), lanes);
    offsets.push_back(kernel.linear(0, rowMajor.strides, indices));
    results.push_back(expression.emit(kernel, indices, {lanes, lanes}));
  }
  // A result may be written over an operand: this thread has read all it needs.
  for (int64_t i = 0; i < perThread; ++i) {
    auto store = [&] {
      for (auto [root, pointer, value] : llvm::zip_equal(frame.terminator()->getOperands(), frame.results, results[i]))
        kernel.store(pointer, tape::elementOf(root), offsets[i], value, {lanes, lanes}, lanes);
    };
    even ? store() : kernel.ifThen(isInside[i], store);
  }
  return {(vectors + perBlock - 1) / perBlock, kThreads};
}

/// Tiles of the last dimension and `dense`, along which transposed tensors lie.
LaunchShape buildTiles(CudaKernelBuilder &kernel, const CudaFrame &frame, const IterationSpace &space, Expression &expression,
                       unsigned dense) {
  expression.emitInvariants(kernel, frame.operands, 1);
  SmallVector<int64_t> extents = extentsOf(space), tiles(extents);
  size_t last = extents.size() - 1;
  for (size_t d : {size_t(dense), last})
    tiles[d] = (extents[d] + kTile - 1) / kTile;

  Values tile = kernel.delinearize(kernel.blockIndex(), tiles);
  Value thread = kernel.threadIndex(), x = kernel.remainder(thread, kTile), y = kernel.divide(thread, kTile);
  auto element = [&](Value alongDense, Value alongLast) {
    Values indices(tile);
    indices[dense] = kernel.add(kernel.multiply(tile[dense], kTile), alongDense);
    indices[last] = kernel.add(kernel.multiply(tile[last], kTile), alongLast);
    return indices;
  };
  auto row = [&](int64_t i) { return kernel.add(y, kernel.integer(i * kTileThreads)); };
  constexpr int64_t kRows = kTile / kTileThreads, kPitch = kTile + 1; // a pitch without bank conflicts

  // Transposed tensors are read along `dense` first.
  struct Transposed {
    BlockArgument argument;
    View view;
    Type element;
    Value shared;
  };
  SmallVector<Transposed> transposed;
  for (auto [argument, view] : expression.accesses()) {
    if (view.strides[last] <= 1 || view.strides[dense] != 1)
      continue;
    Value shared;
    Type held;
    for (int64_t i = 0; i < kRows; ++i) {
      Values indices = element(x, row(i));
      for (size_t d : {size_t(dense), last})
        indices[d] = kernel.minimum(indices[d], kernel.integer(extents[d] - 1));
      Value offset = kernel.linear(view.offset, view.strides, indices);
      Value value = kernel.load(frame.operands[argument.getArgNumber()], tape::elementOf(argument), offset, 1, {1, 1});
      held = value.getType();
      if (!shared)
        shared = kernel.sharedArray(held, kTile * kPitch);
      kernel.store(shared, held, kernel.add(kernel.multiply(row(i), kPitch), x), value, {1, 1});
    }
    transposed.push_back({argument, view, held, shared});
  }
  kernel.barrier();
  View rowMajor = space.rowMajor();
  for (int64_t i = 0; i < kRows; ++i) {
    Values indices = element(row(i), x);
    Value inside = kernel.both(kernel.less(indices[dense], extents[dense]), kernel.less(indices[last], extents[last]));
    kernel.ifThen(inside, [&] {
      KnownValues known;
      for (const Transposed &tensor : transposed) {
        Value place = kernel.add(kernel.multiply(x, kPitch), row(i));
        known.add(tensor.argument, tensor.view, {kernel.load(tensor.shared, tensor.element, place, 1, {1, 1})});
      }
      Value offset = kernel.linear(0, rowMajor.strides, indices);
      Values values = expression.emit(kernel, indices, {1, 1}, &known);
      for (auto [root, pointer, value] : llvm::zip_equal(frame.terminator()->getOperands(), frame.results, values))
        kernel.store(pointer, tape::elementOf(root), offset, value, {1, 1});
    });
  }
  return {ShapedType::getNumElements(tiles), kTile * kTileThreads};
}

} // namespace

unsigned lanesOf16Bytes(Block *region) {
  SmallVector<Type> types(region->getArgumentTypes());
  llvm::append_range(types, region->getTerminator()->getOperandTypes());
  uint64_t most = 0;
  for (Type type : types)
    most = std::max(most, tape::elementCount(type));
  unsigned widest = 0;
  for (Type type : types)
    if (tape::elementCount(type) == most && !getElementTypeOrSelf(type).isInteger(1))
      widest = std::max(widest, tape::elementBytes(getElementTypeOrSelf(type)));
  return widest ? 16 / widest : 2;
}

unsigned chooseLanes(Block *region, int64_t extent, unsigned most) {
  for (Operation &op : *region) {
    bool single = isa<tape::AccessOpInterface>(op) && tape::elementCount(op.getResult(0).getType()) == 1;
    for (Type type : op.getOperandTypes()) // a single element may come from anywhere, the config vector too
      if (!single && tape::elementCount(type) > 1 && getElementTypeOrSelf(type).isF64())
        return 1;
  }
  unsigned lanes = most;
  while (extent % lanes != 0)
    lanes /= 2;
  return lanes;
}

FailureOr<LaunchShape> buildElementwise(CudaKernelBuilder &kernel, const CudaFrame &frame) {
  ValueRange roots = frame.terminator()->getOperands();
  int64_t elements = tape::elementCount(roots.front().getType());
  for (Value root : roots)
    if (static_cast<int64_t>(tape::elementCount(root.getType())) != elements)
      return frame.terminator()->emitError("results of one kernel must have the same number of elements");
  IterationSpace space(Dimension{elements, false});
  FailureOr<Expression> expression = Expression::build(roots, space);
  if (failed(expression))
    return failure();
  if (std::optional<unsigned> dense = expression->denseDimension())
    return buildTiles(kernel, frame, space, *expression, *dense);
  return buildVectors(kernel, frame, space, *expression);
}

} // namespace tapeout::codegen
