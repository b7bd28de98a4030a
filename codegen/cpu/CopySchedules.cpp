#include "codegen/cpu/Schedules.h"
#include "ir/tape/Embedding.h"
#include "ir/tape/Reduction.h"
#include "ir/tape/Shape.h"

#include "llvm/ADT/TypeSwitch.h"

#include <limits>

using namespace mlir;

namespace tapeout::codegen {
namespace {

constexpr int64_t kChunk = 4096; // elements that a unit copies from each part
constexpr int64_t kColumns = 64; // of a table, per unit of its gradient
constexpr unsigned kLanes = 16;

WorkUnits buildEmbedding(KernelBuilder &kernel, const KernelFrame &frame, tape::EmbeddingOp op) {
  int64_t rows = tape::shapeOf(op.getTable())[0], width = tape::shapeOf(op.getTable())[1];
  Type element = tape::elementOf(op.getTable()), idType = tape::elementOf(op.getIds());
  Value table = frame.operands[0], ids = frame.operands[1], result = frame.results[0];
  kernel.loop(frame.begin, frame.end, 1, [&](Value token) {
    Value id = kernel.load(ids, idType, token, 0, {1, 1}), to = kernel.multiply(token, width);
    kernel.ifElse(
        kernel.inRange(id, rows),
        [&] { kernel.copy(table, kernel.multiply(kernel.toIndex(id), width), result, to, element, width); },
        [&] {
          Value notANumber = kernel.constant(element, kLanes, std::numeric_limits<double>::quiet_NaN());
          kernel.vectors(width, kLanes,
                         [&](Value i, Lanes lanes) { kernel.store(result, element, kernel.add(to, i), notANumber, lanes); });
        });
  });
  return {static_cast<int64_t>(tape::elementCount(op.getIds().getType())), width};
}

WorkUnits buildEmbeddingGrad(KernelBuilder &kernel, const KernelFrame &frame, tape::EmbeddingGradOp op) {
  int64_t rows = op.getRows(), width = tape::shapeOf(op.getResult())[1];
  int64_t tokens = tape::elementCount(op.getIds().getType()), blocks = (width + kColumns - 1) / kColumns;
  Type element = tape::elementOf(op.getGradient()), idType = tape::elementOf(op.getIds());
  Value ids = frame.operands[0], gradient = frame.operands[1], result = frame.results[0];

  auto buildBlock = [&](Value first, int64_t columns) {
    kernel.loop(kernel.integer(0), kernel.integer(rows), 1, [&](Value row) {
      Value to = kernel.add(kernel.multiply(row, width), first), zero = kernel.constant(element, kLanes, 0);
      kernel.vectors(columns, kLanes,
                     [&](Value i, Lanes lanes) { kernel.store(result, element, kernel.add(to, i), zero, lanes); });
    });
    kernel.loop(kernel.integer(0), kernel.integer(tokens), 1, [&](Value token) {
      Value id = kernel.load(ids, idType, token, 0, {1, 1});
      kernel.ifThen(kernel.inRange(id, rows), [&] {
        Value from = kernel.add(kernel.multiply(token, width), first);
        Value to = kernel.add(kernel.multiply(kernel.toIndex(id), width), first);
        kernel.vectors(columns, kLanes, [&](Value i, Lanes lanes) {
          Value place = kernel.add(to, i), sum = kernel.load(result, element, place, 1, lanes);
          sum = kernel.addElements(sum, kernel.load(gradient, element, kernel.add(from, i), 1, lanes));
          kernel.store(result, element, place, sum, lanes);
        });
      });
    });
  };
  kernel.loop(frame.begin, frame.end, 1, [&](Value block) {
    Value first = kernel.multiply(block, kColumns);
    int64_t rest = width % kColumns;
    if (rest == 0)
      buildBlock(first, kColumns);
    else if (blocks == 1)
      buildBlock(first, rest);
    else
      kernel.ifElse(
          kernel.equal(block, blocks - 1), [&] { buildBlock(first, rest); }, [&] { buildBlock(first, kColumns); });
  });
  return {blocks, (rows + tokens) * std::min(width, kColumns)};
}

// Parts of `wholeType` along `dimension`: [outer, extent * inner], each part with extent / parts.size() of it.
// copyPart(part, offset in the part, offset in the whole, elements).
WorkUnits buildParts(KernelBuilder &kernel, const KernelFrame &frame, Value whole, int64_t dimension, int64_t parts,
                     llvm::function_ref<void(int64_t, Value, Value, int64_t)> copyPart) {
  ArrayRef<int64_t> shape = tape::shapeOf(whole);
  int64_t outer = 1, inner = 1;
  for (auto [d, extent] : llvm::enumerate(shape))
    (int64_t(d) < dimension ? outer : inner) *= extent;
  int64_t length = inner / parts, chunks = (length + kChunk - 1) / kChunk, rest = length % kChunk;

  kernel.loop(frame.begin, frame.end, 1, [&](Value unit) {
    Value row = kernel.divide(unit, chunks), chunk = kernel.remainder(unit, chunks);
    auto copyChunk = [&](int64_t elements) {
      for (int64_t part = 0; part < parts; ++part) {
        Value start = kernel.multiply(chunk, kChunk);
        Value inPart = kernel.add(kernel.multiply(row, length), start);
        Value inWhole = kernel.add(kernel.multiply(row, inner), kernel.add(start, kernel.integer(part * length)));
        copyPart(part, inPart, inWhole, elements);
      }
    };
    if (rest == 0)
      copyChunk(kChunk);
    else if (chunks == 1)
      copyChunk(rest);
    else
      kernel.ifElse(
          kernel.equal(chunk, chunks - 1), [&] { copyChunk(rest); }, [&] { copyChunk(kChunk); });
  });
  return {outer * chunks, std::min(length, kChunk) * parts};
}

// A unit is a row of the result: what is before the dimension.
WorkUnits buildUnequalParts(KernelBuilder &kernel, const KernelFrame &frame, tape::ConcatenateOp op) {
  int64_t rows = 1, length = 1;
  for (auto [d, extent] : llvm::enumerate(tape::shapeOf(op.getResult())))
    (int64_t(d) < int64_t(op.getDimension()) ? rows : length) *= extent;
  Type element = tape::elementOf(op.getResult());
  kernel.loop(frame.begin, frame.end, 1, [&](Value row) {
    Value to = kernel.multiply(row, length);
    for (auto [part, operand] : llvm::enumerate(op.getOperands())) {
      int64_t elements = tape::elementCount(operand.getType()) / rows;
      kernel.copy(frame.operands[part], kernel.multiply(row, elements), frame.results[0], to, element, elements);
      to = kernel.add(to, kernel.integer(elements));
    }
  });
  return {rows, length};
}

WorkUnits buildConcatenate(KernelBuilder &kernel, const KernelFrame &frame, tape::ConcatenateOp op) {
  Type element = tape::elementOf(op.getResult());
  if (!llvm::all_equal(op.getOperands().getTypes()))
    return buildUnequalParts(kernel, frame, op);
  return buildParts(kernel, frame, op.getResult(), op.getDimension(), op.getOperands().size(),
                    [&](int64_t part, Value inPart, Value inWhole, int64_t elements) {
                      kernel.copy(frame.operands[part], inPart, frame.results[0], inWhole, element, elements);
                    });
}

} // namespace

FailureOr<WorkUnits> buildRowMovement(KernelBuilder &kernel, const KernelFrame &frame, Operation *op) {
  // The pointers in the order of the op's operands and results.
  KernelFrame own = frame;
  own.operands.clear();
  own.results.clear();
  for (Value operand : op->getOperands())
    if (auto argument = dyn_cast<BlockArgument>(operand))
      own.operands.push_back(frame.operands[argument.getArgNumber()]);
  for (Value result : op->getResults())
    if (auto place = llvm::find(frame.terminator()->getOperands(), result); place != frame.terminator()->operand_end())
      own.results.push_back(frame.results[place.getIndex()]);
  if (own.operands.size() != op->getNumOperands() || own.results.size() != op->getNumResults() ||
      frame.results.size() != op->getNumResults())
    return op->emitError("must be the only op of its kernel, with all its results yielded");

  return llvm::TypeSwitch<Operation *, FailureOr<WorkUnits>>(op)
      .Case([&](tape::EmbeddingOp op) { return buildEmbedding(kernel, own, op); })
      .Case([&](tape::EmbeddingGradOp op) { return buildEmbeddingGrad(kernel, own, op); })
      .Case([&](tape::ConcatenateOp op) { return buildConcatenate(kernel, own, op); })
      .Case([&](tape::SumOfSquaresPartsOp op) { return buildSumOfSquaresParts(kernel, own, op); })
      .Default([](Operation *op) { return op->emitError("has no kernel for the target cpu"); });
}

} // namespace tapeout::codegen
