// tape-form-fusion-groups: puts every op that becomes a generated kernel into a tape.fusion. Each op is a group of its own
// here: merging groups is what the fusion passes do with these.
#include "passes/Functions.h"
#include "passes/Passes.h"

#include "ir/tape/Fusion.h"
#include "ir/tape/MatMul.h"
#include "ir/tape/Shape.h"

#include "mlir/IR/IRMapping.h"

using namespace mlir;

namespace tapeout {
#define GEN_PASS_DEF_FORMFUSIONGROUPS
#include "passes/Passes.h.inc"

namespace {

/// Moves no data (a reshape) or is executed by a library.
bool needsNoKernel(Operation *op) { return isa<tape::ReshapeOp>(op) || tape::isLibraryCall(op); }

/// A constant costs nothing inside a kernel and a launch outside: groups get copies of their own.
bool isFree(Operation *op) { return isa_and_nonnull<tape::ConstantOp>(op); }

void wrap(Operation *op) {
  OpBuilder builder(op);
  SmallVector<Value> operands;
  for (Value operand : op->getOperands())
    if (!isFree(operand.getDefiningOp()) && !llvm::is_contained(operands, operand))
      operands.push_back(operand);
  auto fusion = builder.create<tape::FusionOp>(op->getLoc(), op->getResultTypes(), operands);
  if (Attribute phase = op->getAttr(tape::kPhaseAttr))
    fusion->setAttr(tape::kPhaseAttr, phase);

  Block &body = fusion.getBody().emplaceBlock();
  IRMapping mapping;
  for (Value operand : operands)
    mapping.map(operand, body.addArgument(operand.getType(), op->getLoc()));
  builder.setInsertionPointToStart(&body);
  for (Value operand : op->getOperands())
    if (isFree(operand.getDefiningOp()) && !mapping.contains(operand))
      builder.clone(*operand.getDefiningOp(), mapping);
  Operation *clone = builder.clone(*op, mapping);
  builder.create<tape::YieldOp>(op->getLoc(), clone->getResults());
  op->replaceAllUsesWith(fusion.getResults());
  op->erase();
}

struct FormFusionGroups : impl::FormFusionGroupsBase<FormFusionGroups> {
  void runOnOperation() override {
    for (auto func : getOperation().getOps<func::FuncOp>()) {
      SmallVector<Operation *> ops, constants;
      for (Operation &op : func.getBody().front().without_terminator())
        if (isFree(&op))
          constants.push_back(&op);
        else if (!needsNoKernel(&op))
          ops.push_back(&op);
      for (Operation *op : ops)
        wrap(op);
      for (Operation *constant : constants) // one that is still used feeds a reshape, a library or the return
        if (constant->use_empty())
          constant->erase();
        else
          wrap(constant);
    }
  }
};

} // namespace
} // namespace tapeout
