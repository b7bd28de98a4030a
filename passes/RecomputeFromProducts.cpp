// tape-recompute-from-products: what the forward phase computes from a product at next to no cost, such as the product with a
// bias added, is computed once more where the backward phase reads it. The product is in memory anyway, so that it is kept
// instead: a value less is written, and as many bytes live as before.
#include "passes/Functions.h"
#include "passes/KernelGraph.h"
#include "passes/Passes.h"

#include "ir/tape/MatMul.h"
#include "ir/tape/Shape.h"
#include "ir/tape/Target.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/IR/IRMapping.h"

using namespace mlir;

namespace tapeout {
#define GEN_PASS_DEF_RECOMPUTEFROMPRODUCTS
#include "passes/Passes.h.inc"

namespace {

constexpr unsigned kMostOps = 4;      // that are computed once more
constexpr uint64_t kMuchSmaller = 64; // operands of so many times fewer elements cost nothing to read again

StringRef phaseOf(Operation *op) {
  auto phase = op->getAttrOfType<StringAttr>(tape::kPhaseAttr);
  return phase ? phase.getValue() : "";
}

/// Arithmetic alone: no function is evaluated, nothing is divided or drawn.
bool isArithmetic(Operation *op) {
  auto facts = dyn_cast<tape::FactsOpInterface>(op);
  auto scalar = dyn_cast<tape::ScalarBodyOpInterface>(op);
  bool isElementwise = scalar && facts.getFusionKind() == tape::FusionKind::Elementwise;
  if (!isElementwise || op->getNumResults() != 1 || isa<tape::StochasticOpInterface>(op))
    return false;
  Block block;
  OpBuilder builder(op->getContext());
  builder.setInsertionPointToEnd(&block);
  auto scalarType = [](Value value) { return tape::computeType(tape::elementOf(value)); };
  SmallVector<Value> arguments, results;
  for (Value operand : op->getOperands())
    arguments.push_back(block.addArgument(scalarType(operand), op->getLoc()));
  Value index = block.addArgument(builder.getI64Type(), op->getLoc());
  scalar.buildScalarBody(builder, op->getLoc(), arguments, index, results);
  return llvm::none_of(block, [](Operation &inner) {
    return isa<math::MathDialect>(inner.getDialect()) || isa<arith::DivFOp, arith::RemFOp>(inner);
  });
}

/// Elements in memory behind what is read through views.
uint64_t elementsRead(Value operand) {
  while (Operation *view = operand.getDefiningOp()) {
    if (!isView(view))
      break;
    if (view->getNumOperands() == 0)
      return 0;
    operand = view->getOperand(0);
  }
  return tape::elementCount(operand.getType());
}

/// The ops from a product to `value`, last first; none where something else of its size is needed, or too much computation.
SmallVector<Operation *> opsFromProduct(Value value) {
  const uint64_t elements = tape::elementCount(value.getType()), bytes = tape::totalBytes(value.getType());
  SmallVector<Operation *> ops;
  while (Operation *op = value.getDefiningOp()) {
    if (isa<tape::DotGeneralOp>(op))
      return tape::totalBytes(value.getType()) <= bytes ? ops : SmallVector<Operation *>();
    if (ops.size() == kMostOps || !(isa<tape::ReshapeOp>(op) || isArithmetic(op)))
      break;
    ops.push_back(op);
    SmallVector<Value> large;
    for (Value operand : op->getOperands())
      if (elementsRead(operand) * kMuchSmaller > elements)
        large.push_back(operand);
    if (large.size() != 1)
      break;
    value = large.front();
  }
  return {};
}

/// Whether the value is in memory anyway: for a library call or the caller, or for kernels of a phase between its own and the
/// backward one.
bool isInMemory(Value value, StringRef phase) {
  return llvm::any_of(value.getUsers(), [&](Operation *user) {
    if (isView(user))
      return isInMemory(user->getResult(0), phase);
    return readsMemory(user) || (phaseOf(user) != phase && phaseOf(user) != "backward");
  });
}

void recompute(ArrayRef<Operation *> ops, OpOperand &use) {
  Operation *user = use.getOwner();
  OpBuilder builder(user);
  IRMapping mapping;
  for (Operation *op : llvm::reverse(ops))
    builder.clone(*op, mapping)->setAttr(tape::kPhaseAttr, user->getAttr(tape::kPhaseAttr));
  use.set(mapping.lookup(use.get()));
}

struct RecomputeFromProducts : impl::RecomputeFromProductsBase<RecomputeFromProducts> {
  using RecomputeFromProductsBase::RecomputeFromProductsBase;

  void runOnOperation() override {
    if (tape::targetOf(getOperation()).tileEpilogues) // products that hand over their pieces are not in memory
      return;
    for (auto func : getOperation().getOps<func::FuncOp>())
      for (Operation &op : func.getBody().front())
        if (isArithmetic(&op))
          visit(&op);
  }

  void visit(Operation *op) {
    Value value = op->getResult(0);
    SmallVector<OpOperand *> later;
    for (OpOperand &use : value.getUses())
      if (phaseOf(use.getOwner()) == "backward")
        later.push_back(&use);
    if (phaseOf(op) == "backward" || later.empty() || isInMemory(value, phaseOf(op)))
      return;
    SmallVector<Operation *> ops = opsFromProduct(value);
    if (ops.empty())
      return;
    for (OpOperand *use : later)
      recompute(ops, *use);
    ++recomputed;
  }
};

} // namespace
} // namespace tapeout
