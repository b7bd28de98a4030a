// tape-fuse-epilogues: an elementwise group that is the only reader of a product joins it. The product then hands each
// finished piece to the group's kernel while it is in the cache: it is not written and read as a whole. Where the target's
// products cannot do that, they may still add a bias themselves.
#include "passes/Functions.h"
#include "passes/Passes.h"

#include "passes/KernelGraph.h"

#include "ir/tape/Elementwise.h"
#include "ir/tape/Fusion.h"
#include "ir/tape/MatMul.h"
#include "ir/tape/Shape.h"
#include "ir/tape/Strided.h"
#include "ir/tape/Target.h"

#include "mlir/IR/IRMapping.h"

#include "llvm/ADT/SetVector.h"

using namespace mlir;

namespace tapeout {
#define GEN_PASS_DEF_FUSEEPILOGUES
#include "passes/Passes.h.inc"

namespace {

/// One matrix of whole rows. Others have no rows that an elementwise kernel would know.
bool givesOneMatrix(const tape::StridedMatmul &product) {
  return product.batch.empty() && product.m > 1 && product.n > 1 && product.resultColumn == 1 && product.resultRow == product.n;
}

/// Whether a row-major view of whole rows stays one: it repeats or skips nothing within a row of `columns` elements.
bool keepsRows(Operation *view, uint64_t columns) {
  if (isa<tape::ReshapeOp, tape::ConstantOp>(view) || tape::rankOf(view->getResult(0)) == 0)
    return true;
  auto strided = dyn_cast<tape::AccessOpInterface>(view);
  if (!strided)
    return false;
  auto access = strided.getAccess();
  Value operand = view->getOperand(0);
  if (!access || !(isa<BlockArgument>(operand) || operand.getDefiningOp<tape::ConstantOp>())) // a view of a view may cut anywhere
    return false;
  return llvm::all_of(cutsOf(tape::shapeOf(view->getResult(0)), access->strides), [&](uint64_t cut) { return cut % columns == 0; });
}

/// Every use of the product's result is of the element that is computed.
bool isReadInOrder(Value value) {
  return llvm::all_of(value.getUsers(), [](Operation *user) {
    if (isa<tape::ReshapeOp>(user))
      return isReadInOrder(user->getResult(0));
    return cast<tape::FactsOpInterface>(user).getFusionKind() == tape::FusionKind::Elementwise;
  });
}

/// The product moves to its group. What it reads lives until then: it may not be far.
bool isNear(Operation *from, Operation *to) {
  constexpr int kMostBetween = 4;
  int between = 0;
  for (Operation *op = from->getNextNode(); op != to; op = op->getNextNode())
    between += !isElided(op);
  return between <= kMostBetween;
}

/// The group that may follow the product piece by piece, or null.
tape::FusionOp findEpilogue(tape::DotGeneralOp dot) {
  auto placed = tape::placeProduct(dot);
  const tape::StridedMatmul *product = placed ? &placed->matmul : nullptr;
  if (!product || dot.getAddend() || !givesOneMatrix(*product) || !dot.getResult().hasOneUse())
    return nullptr;
  OpOperand &use = *dot.getResult().getUses().begin();
  auto fusion = dyn_cast<tape::FusionOp>(use.getOwner());
  if (!fusion || fusion.getTensors() != 1 || tape::productOf(fusion) || !isNear(dot, fusion) || fusion->getAttr(tape::kPhaseAttr) != dot->getAttr(tape::kPhaseAttr))
    return nullptr;
  uint64_t elements = product->m * product->n;
  auto fits = [&](Value result) { return tape::elementCount(result.getType()) == elements; };
  Block &body = fusion.getBody().front();
  // The product is computed where the first result will be.
  if (!llvm::all_of(fusion.getResults(), fits) || tape::elementOf(fusion.getResult(0)) != tape::elementOf(dot.getResult()) ||
      !isReadInOrder(body.getArgument(use.getOperandNumber())))
    return nullptr;
  for (Operation &op : body.without_terminator()) {
    bool elementwise = cast<tape::FactsOpInterface>(op).getFusionKind() == tape::FusionKind::Elementwise && !isa<tape::IotaOp>(op);
    if (!elementwise && !(isView(&op) && keepsRows(&op, product->n)))
      return nullptr;
  }
  return fusion;
}

/// Whether the group does nothing but add a bias of the product's type to its rows.
bool addsBias(tape::DotGeneralOp dot, tape::FusionOp fusion) {
  Block &body = fusion.getBody().front();
  auto add = body.getTerminator()->getOperand(0).getDefiningOp<tape::AddOp>();
  if (!add || fusion.getNumResults() != 1 || !llvm::hasNItems(body.without_terminator(), 2))
    return false;
  Value product = body.getArgument(dot.getResult().getUses().begin()->getOperandNumber());
  Value other = add.getLhs() == product ? add.getRhs() : add.getLhs();
  auto bias = other.getDefiningOp<tape::BroadcastInDimOp>();
  return llvm::is_contained(add->getOperands(), product) && bias && isa<BlockArgument>(bias.getOperand()) &&
         tape::rankOf(bias.getOperand()) == 1 && bias.getBroadcastDimensions().back() + 1 == tape::rankOf(product) &&
         tape::shapeOf(bias.getOperand()).back() == tape::shapeOf(product).back() &&
         tape::elementOf(bias.getOperand()) == tape::elementOf(product);
}

void fuse(tape::DotGeneralOp dot, tape::FusionOp fusion) {
  llvm::SetVector<Value> operands;
  operands.insert(dot->operand_begin(), dot->operand_end());
  for (Value operand : fusion.getOperands())
    if (operand != dot.getResult())
      operands.insert(operand);
  OpBuilder builder(fusion);
  auto fused = builder.create<tape::FusionOp>(fusion.getLoc(), fusion.getResultTypes(), operands.getArrayRef(), /*tensors=*/1);
  if (Attribute phase = fusion->getAttr(tape::kPhaseAttr))
    fused->setAttr(tape::kPhaseAttr, phase);
  Block &body = fused.getBody().emplaceBlock();
  IRMapping mapping;
  for (Value operand : operands)
    mapping.map(operand, body.addArgument(operand.getType(), fusion.getLoc()));
  builder.setInsertionPointToStart(&body);
  mapping.map(dot.getResult(), builder.clone(*dot, mapping)->getResult(0));
  Block &from = fusion.getBody().front();
  for (auto [argument, operand] : llvm::zip(from.getArguments(), fusion.getOperands()))
    mapping.map(argument, mapping.lookup(operand));
  for (Operation &op : from)
    builder.clone(op, mapping);
  fusion.replaceAllUsesWith(fused.getResults());
  fusion.erase();
  dot.erase();
}

struct FuseEpilogues : impl::FuseEpiloguesBase<FuseEpilogues> {
  using FuseEpiloguesBase::FuseEpiloguesBase;

  void runOnOperation() override {
    const tape::Target &target = tape::targetOf(getOperation());
    if (!target.tileEpilogues && !target.biasEpilogues)
      return;
    for (auto func : getOperation().getOps<func::FuncOp>())
      for (auto dot : llvm::make_early_inc_range(func.getBody().front().getOps<tape::DotGeneralOp>()))
        if (tape::FusionOp fusion = findEpilogue(dot); fusion && (target.tileEpilogues || addsBias(dot, fusion))) {
          fuse(dot, fusion);
          ++fused;
        }
  }
};

} // namespace
} // namespace tapeout
