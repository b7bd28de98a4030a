#include "ir/tape/Decompose.h"

#include "ir/tape/Tape.h"

using namespace mlir;

namespace tapeout::tape {

namespace {
// Replaces `op` by its decomposition and appends what may itself be decomposable to `worklist`.
LogicalResult decomposeOne(Operation *op, SmallVectorImpl<Operation *> &worklist) {
  OpBuilder builder(op);
  Operation *before = op->getPrevNode();
  SmallVector<Value> replacements;
  cast<DecomposableOpInterface>(op).decompose(builder, replacements);
  if (replacements.empty())
    return success();
  if (TypeRange(ValueRange(replacements)) != TypeRange(op->getResultTypes()))
    return op->emitOpError("decomposes into values of other types");

  Attribute phase = op->getAttr(kPhaseAttr);
  Block::iterator first = before ? std::next(before->getIterator()) : op->getBlock()->begin();
  SmallVector<Operation *> created;
  for (Operation &part : llvm::make_range(first, op->getIterator()))
    created.push_back(&part);
  op->replaceAllUsesWith(replacements);
  op->erase();
  for (Operation *part : llvm::reverse(created)) {
    if (isOpTriviallyDead(part)) {
      part->erase();
      continue;
    }
    if (phase)
      part->setAttr(kPhaseAttr, phase);
    if (isa<DecomposableOpInterface>(part))
      worklist.push_back(part);
  }
  return success();
}
} // namespace

LogicalResult decomposeOps(Operation *root) {
  SmallVector<Operation *> worklist;
  root->walk([&](DecomposableOpInterface op) { worklist.push_back(op); });
  while (!worklist.empty())
    if (failed(decomposeOne(worklist.pop_back_val(), worklist)))
      return failure();
  return success();
}

} // namespace tapeout::tape
