// tape-build-backward: appends the gradient of the loss for every trainable parameter as a result of @step.
//
// Reverse-mode differentiation over a straight line of ops:
//   1. mark the values that depend on a trainable parameter (only they carry gradients);
//   2. walk the ops from last to first; where a result has a gradient, ask the op for those of its operands;
//   3. a value used several times sums what flows back (tied weights, residual branches).
#include "passes/Functions.h"
#include "passes/Passes.h"

#include "ir/tape/TapeBuilder.h"

#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/DenseSet.h"

using namespace mlir;

namespace tapeout {
#define GEN_PASS_DEF_BUILDBACKWARD
#include "passes/Passes.h.inc"

namespace {

/// Values on a path from a trainable parameter.
llvm::DenseSet<Value> findActiveValues(func::FuncOp step) {
  llvm::DenseSet<Value> active;
  for (unsigned i : argumentsWithRole(step, tape::kRoleParameter))
    if (isTrainable(step, i))
      active.insert(step.getArgument(i));
  for (Operation &op : step.getBody().front())
    if (llvm::any_of(op.getOperands(), [&](Value operand) { return active.contains(operand); }))
      active.insert(op.result_begin(), op.result_end());
  return active;
}

class Backward {
public:
  Backward(func::FuncOp step, OpBuilder &builder) : step_(step), builder_(builder), active_(findActiveValues(step)) {}

  void seed(Value loss) {
    tape::TapeBuilder t(builder_, loss.getLoc());
    gradients_[loss] = t.constantLike(loss, 1);
  }

  /// Differentiates one op if anything flows back to it.
  void visit(Operation &op) {
    SmallVector<Value> resultGradients;
    for (Value result : op.getResults())
      resultGradients.push_back(gradients_.lookup(result));
    bool reached = llvm::any_of(resultGradients, [](Value gradient) { return gradient != nullptr; });
    bool needed = llvm::any_of(op.getOperands(), [&](Value operand) { return active_.contains(operand); });
    if (!reached || !needed)
      return;
    auto differentiable = dyn_cast<tape::DifferentiableOpInterface>(op);
    if (!differentiable) {
      withoutGradient_.push_back(&op);
      return;
    }
    SmallVector<Value> operandGradients;
    differentiable.buildGradient(builder_, resultGradients, operandGradients);
    for (auto [operand, gradient] : llvm::zip(op.getOperands(), operandGradients))
      if (gradient && active_.contains(operand))
        accumulate(operand, gradient);
  }

  /// One message for all ops whose gradient is missing.
  LogicalResult reportMissing() {
    if (withoutGradient_.empty())
      return success();
    InFlightDiagnostic diagnostic = step_.emitError() << withoutGradient_.size() << " layer(s) have no gradient:";
    for (Operation *op : withoutGradient_)
      diagnostic.attachNote(op->getLoc()) << "layer '" << tape::layerName(op->getLoc()) << "' ('" << op->getName()
                                          << "'); freeze the parameters before it or express it by other ops";
    return failure();
  }

  Value gradientOf(Value value) { return gradients_.lookup(value); }

private:
  void accumulate(Value operand, Value gradient) {
    Value &sum = gradients_[operand];
    sum = sum ? tape::TapeBuilder(builder_, gradient.getLoc()).add(sum, gradient) : gradient;
  }

  func::FuncOp step_;
  OpBuilder &builder_;
  llvm::DenseSet<Value> active_;
  llvm::DenseMap<Value, Value> gradients_;
  SmallVector<Operation *> withoutGradient_;
};

struct BuildBackward : impl::BuildBackwardBase<BuildBackward> {
  void runOnOperation() override {
    auto step = getOperation().lookupSymbol<func::FuncOp>("step");
    Value loss = step ? findResult(step, "loss") : Value();
    if (!loss) {
      getOperation().emitError("build-backward needs a function @step with a result named loss; run attach-loss first");
      return signalPassFailure();
    }
    Block &body = step.getBody().front();
    SmallVector<Operation *> forward;
    for (Operation &op : body.without_terminator())
      forward.push_back(&op);

    OpBuilder builder(body.getTerminator());
    PhaseScope phase(builder, "backward");
    Backward backward(step, builder);
    backward.seed(loss);
    for (Operation *op : llvm::reverse(forward))
      backward.visit(*op);
    if (failed(backward.reportMissing()))
      return signalPassFailure();

    SmallVector<NamedResult> results = getResults(step);
    for (unsigned i : argumentsWithRole(step, tape::kRoleParameter)) {
      if (!isTrainable(step, i))
        continue;
      Value gradient = backward.gradientOf(step.getArgument(i));
      if (!gradient) {
        step.emitError() << "the loss does not depend on parameter '" << argumentAttr(step, i, tape::kNameAttr)
                         << "', so it would never train; freeze it (--freeze) or remove it from the model";
        return signalPassFailure();
      }
      results.push_back({gradient, builder.getDictionaryAttr(builder.getNamedAttr(tape::kGradientOfAttr, builder.getI64IntegerAttr(i)))});
    }
    setResults(step, results);
    // A rule builds the gradients of all operands; those that nobody asked for go.
    for (Operation &op : llvm::make_early_inc_range(llvm::reverse(body)))
      if (isOpTriviallyDead(&op))
        op.erase();
  }
};

} // namespace
} // namespace tapeout
