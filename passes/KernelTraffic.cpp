#include "passes/KernelTraffic.h"

#include "passes/KernelGraph.h"

#include "ir/tape/MatMul.h"
#include "ir/tape/Tape.h"

#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/SetVector.h"

#include <algorithm>

using namespace mlir;

namespace tapeout {

namespace {

uint64_t bytesOf(Value value) { return tape::totalBytes({value.getType()}); }
uint64_t countOf(Value value) { return tape::elementCount(value.getType()); }
uint64_t elementBytes(Value value) { return bytesOf(value) / countOf(value); }

/// An op that is no loop over elements knows itself what it reads: an embedding only some rows of its table.
uint64_t ownBytes(Operation &op) {
  auto cost = cast<tape::CostModelOpInterface>(op);
  return cost.getBytesRead() + cost.getBytesWritten();
}

/// Elements of a value that its users need; a view needs only what it shows.
uint64_t elementsRead(Value value) {
  uint64_t needed = 0;
  for (Operation *user : llvm::SetVector<Operation *>(value.user_begin(), value.user_end()))
    needed += isView(user) ? elementsRead(user->getResult(0)) : countOf(value);
  return std::min(needed, countOf(value));
}

/// Adds what `limit` elements of `value` are read from.
void collectReads(Value value, uint64_t limit, llvm::MapVector<Value, uint64_t> &reads) {
  limit = std::min(limit, countOf(value));
  if (Operation *op = value.getDefiningOp(); isView(op)) {
    for (Value operand : op->getOperands())
      collectReads(operand, limit, reads);
    return;
  }
  uint64_t &elements = reads[value];
  elements = std::min(elements + limit, countOf(value));
}

} // namespace

uint64_t bytesMoved(Block &body) {
  uint64_t bytes = tape::totalBytes(body.getTerminator()->getOperandTypes());
  for (Operation &op : body.without_terminator())
    if (!isView(&op) && readsMemory(&op) && !tape::isLibraryCall(&op)) // then it is alone
      return ownBytes(op);
  for (Value argument : body.getArguments())
    bytes += elementsRead(argument) * elementBytes(argument);
  return bytes;
}

uint64_t bytesMovedAlone(Block &body) {
  uint64_t bytes = 0;
  for (Operation &op : body.without_terminator()) {
    if (isView(&op))
      continue;
    if (readsMemory(&op)) {
      bytes += ownBytes(op);
      continue;
    }
    llvm::MapVector<Value, uint64_t> reads;
    for (Value operand : llvm::SetVector<Value>(op.operand_begin(), op.operand_end()))
      collectReads(operand, countOf(operand), reads);
    for (auto [value, elements] : reads)
      bytes += elements * elementBytes(value);
    for (Value result : op.getResults())
      bytes += result.use_empty() ? 0 : bytesOf(result);
  }
  return bytes;
}

} // namespace tapeout
