// Kernels that move whole rows.
#include "codegen/cuda/Schedules.h"
#include "ir/tape/Embedding.h"
#include "ir/tape/Reduction.h"
#include "ir/tape/Shape.h"

#include "mlir/IR/TypeUtilities.h"

#include "llvm/ADT/TypeSwitch.h"
#include "llvm/Support/MathExtras.h"

#include <limits>

using namespace mlir;

namespace tapeout::codegen {
namespace {

constexpr int64_t kThreads = 256;

/// One thread for each vector of the result.
LaunchShape buildEmbedding(CudaKernelBuilder &kernel, const CudaFrame &frame, tape::EmbeddingOp op) {
  int64_t rows = tape::shapeOf(op.getTable())[0], width = tape::shapeOf(op.getTable())[1];
  int64_t tokens = tape::elementCount(op.getIds().getType());
  Type element = tape::elementOf(op.getTable()), idType = tape::elementOf(op.getIds());
  unsigned lanes = chooseLanes(frame.region, width, lanesOf16Bytes(frame.region));
  int64_t pieces = width / lanes, vectors = tokens * pieces, blocks = llvm::divideCeil(vectors, kThreads);

  Value vector = kernel.add(kernel.multiply(kernel.blockIndex(), kThreads), kernel.threadIndex());
  Value token = kernel.divide(vector, pieces), column = kernel.multiply(kernel.remainder(vector, pieces), lanes);
  auto copy = [&] {
    Value id = kernel.load(frame.operands[1], idType, token, 0, {1, 1});
    Value isKnown = kernel.inRange(id, rows), row = kernel.toIndex(id);
    row = kernel.select(isKnown, row, kernel.integer(0));
    Value place = kernel.add(kernel.multiply(row, width), column);
    Value value = kernel.load(frame.operands[0], element, place, 1, {lanes, lanes}, lanes);
    Value notANumber =
        kernel.constant(getElementTypeOrSelf(value.getType()), lanes, std::numeric_limits<double>::quiet_NaN());
    value = kernel.select(isKnown, value, notANumber);
    kernel.store(frame.results[0], element, kernel.multiply(vector, lanes), value, {lanes, lanes}, lanes);
  };
  vectors % kThreads == 0 ? copy() : kernel.ifThen(kernel.less(vector, vectors), copy);
  return {blocks, kThreads};
}

/// Each operand has blocks of its own; a thread copies one vector.
LaunchShape buildConcatenate(CudaKernelBuilder &kernel, const CudaFrame &frame, tape::ConcatenateOp op) {
  int64_t outer = 1, length = 1; // the result as rows of `length`, of which each operand has a part
  for (auto [d, extent] : llvm::enumerate(tape::shapeOf(op.getResult())))
    (int64_t(d) < int64_t(op.getDimension()) ? outer : length) *= extent;
  Type element = tape::elementOf(op.getResult());
  Value block = kernel.blockIndex(), thread = kernel.threadIndex();
  int64_t firstBlock = 0, begin = 0;
  for (auto [number, operand] : llvm::enumerate(op.getOperands())) {
    int64_t part = tape::elementCount(operand.getType()) / outer;
    unsigned lanes = 16 / std::min(8u, tape::elementBytes(element));
    while (part % lanes != 0 || begin % lanes != 0 || length % lanes != 0)
      lanes /= 2;
    int64_t pieces = part / lanes, vectors = outer * pieces, blocks = llvm::divideCeil(vectors, kThreads);
    auto copyPart = [&, begin = begin, pointer = frame.operands[number]] {
      Value own = kernel.subtract(block, kernel.integer(firstBlock));
      Value vector = kernel.add(kernel.multiply(own, kThreads), thread);
      kernel.ifThen(kernel.less(vector, vectors), [&] {
        Value row = kernel.divide(vector, pieces), column = kernel.multiply(kernel.remainder(vector, pieces), lanes);
        Value to = kernel.add(kernel.multiply(row, length), kernel.add(column, kernel.integer(begin)));
        Value value = kernel.load(pointer, element, kernel.multiply(vector, lanes), 1, {lanes, lanes}, lanes);
        kernel.store(frame.results[0], element, to, value, {lanes, lanes}, lanes);
      });
    };
    Value isOwn = kernel.less(block, firstBlock + blocks);
    if (firstBlock > 0)
      isOwn = kernel.both(isOwn, kernel.notAbove(kernel.integer(firstBlock), block));
    kernel.ifThen(isOwn, copyPart);
    firstBlock += blocks;
    begin += part;
  }
  return {firstBlock, kThreads};
}

} // namespace

FailureOr<LaunchShape> buildRowMovement(CudaKernelBuilder &kernel, const CudaFrame &frame, Operation *op) {
  if (op->getParentRegion() != frame.region->getParent() || frame.terminator()->getOperands() != op->getResults())
    return op->emitError("must be the only op of its kernel, with all its results yielded");
  if (!llvm::all_of(op->getOperands(), [](Value operand) { return isa<BlockArgument>(operand); }))
    return op->emitError("must read arguments of its kernel");
  // The pointers in the order of the op's operands.
  CudaFrame own = frame;
  own.operands.clear();
  if (!frame.operands.empty())
    for (Value operand : op->getOperands())
      own.operands.push_back(frame.operands[cast<BlockArgument>(operand).getArgNumber()]);

  return llvm::TypeSwitch<Operation *, FailureOr<LaunchShape>>(op)
      .Case([&](tape::EmbeddingOp op) { return buildEmbedding(kernel, own, op); })
      .Case([&](tape::SortIdsOp op) { return buildSortIds(kernel, own, op); })
      .Case([&](tape::SumSortedPiecesOp op) { return buildSumSortedPieces(kernel, own, op); })
      .Case([&](tape::SumSortedRowsOp op) { return buildSumSortedRows(kernel, own, op); })
      .Case([&](tape::ConcatenateOp op) { return buildConcatenate(kernel, own, op); })
      .Case([&](tape::SumOfSquaresPartsOp op) { return buildSumOfSquaresParts(kernel, own, op); })
      .Default([](Operation *op) { return op->emitError("has no kernel for the target cuda"); });
}

} // namespace tapeout::codegen
