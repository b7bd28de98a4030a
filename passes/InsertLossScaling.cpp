// tape-insert-loss-scaling: multiplies the gradient that the backward phase starts from by a loss scale, so that small f16
// gradients do not vanish, and divides the parameters' gradients by it, once, before they are clipped. If one of them is
// not finite the step is skipped: its result "skipped" makes attach-optimizer keep parameters, state and step counter. All
// of it is a part of the graph: the host reads nothing.
//
// The scale grows after so many good steps in a row and shrinks after so many bad ones:
//   torch   PyTorch's GradScaler and Paddle's dygraph AmpScaler;
//   paddle  Paddle's static graphs (update_loss_scaling);
//   NUMBER  stays as it is.
#include "passes/Functions.h"
#include "passes/Passes.h"

#include "ir/tape/Reduction.h"
#include "ir/tape/Shape.h"
#include "ir/tape/TapeBuilder.h"

#include <cmath>
#include <limits>
#include <optional>

using namespace mlir;

namespace tapeout {
#define GEN_PASS_DEF_INSERTLOSSSCALING
#include "passes/Passes.h.inc"

namespace {

struct Policy {
  double initial;
  int64_t goodSteps = 0; ///< until the scale grows; 0: it never changes
  double growth = 1;
  int64_t badSteps = 0; ///< until it shrinks
  double backoff = 1;
  double least = 0; ///< not below this

  bool changes() const { return goodSteps > 0; }
};

std::optional<Policy> policyOf(StringRef name) {
  if (name == "torch")
    return Policy{65536, 2000, 2, 1, 0.5, 0};
  if (name == "paddle")
    return Policy{32768, 1000, 2, 2, 0.8, 1};
  double number;
  if (name.getAsDouble(number) || !std::isfinite(float(number)) || float(number) <= 0)
    return std::nullopt;
  return Policy{number};
}

class LossScaling {
public:
  LossScaling(func::FuncOp step, const Policy &policy, OpBuilder &builder)
      : step_(step), policy_(policy), t_(builder, NameLoc::get(builder.getStringAttr("loss_scale"))) {
    Builder types(step.getContext());
    if (policy.changes())
      scale_ = state(types.getF32Type(), tape::kRoleState, "scale");
    if (policy.changes())
      good_ = state(types.getI64Type(), tape::kRoleCounter, "good_steps");
    if (policy.badSteps > 1)
      bad_ = state(types.getI64Type(), tape::kRoleCounter, "bad_steps");
    skippedSteps_ = state(types.getI64Type(), tape::kRoleCounter, "skipped_steps");
    if (auto scale = dyn_cast_or_null<BlockArgument>(scale_))
      step.setArgAttr(scale.getArgNumber(), tape::kInitAttr, initializer(types));
    else
      scale_ = t_.constant(types.getF32Type(), policy.initial);
  }

  Value scale() const { return scale_; }

  void unscale(SmallVectorImpl<NamedResult> &results) {
    SmallVector<Value> gradients;
    // float(1 / double(scale)), as PyTorch.
    Value wide = t_.convert(scale_, t_.builder().getF64Type());
    Value inverse = t_.convert(t_.div(t_.constantLike(wide, 1), wide), tape::elementOf(scale_));
    for (NamedResult &result : results)
      if (result.attributes && result.attributes.contains(tape::kGradientOfAttr)) {
        gradients.push_back(result.value);
        result.value = tape::TapeBuilder(t_.builder(), result.value.getLoc()).mul(result.value, inverse);
      }
    // Zero times a number is zero unless the number is not finite.
    Value zero = t_.constantLike(scale_, 0);
    Value sum = t_.builder().create<tape::SumOfSquaresOp>(t_.loc(), gradients, zero);
    found_ = t_.compare("ne", sum, zero);
  }

  void addResults(SmallVectorImpl<NamedResult> &results) {
    Value skipped = t_.add(skippedSteps_, t_.convert(found_, tape::elementOf(skippedSteps_)));
    results.push_back(namedResult(found_, "skipped"));
    results.push_back(namedResult(skipped, "skipped_steps"));
    results.push_back(namedResult(scale_, "loss_scale"));
    results.push_back(update(skipped, skippedSteps_));
    if (policy_.changes())
      addUpdates(results);
  }

private:
  BlockArgument state(Type element, StringRef role, StringRef name) {
    return addArgument(step_, RankedTensorType::get({}, element), role, ("loss_scale/" + name).str());
  }

  DictionaryAttr initializer(Builder &b) const {
    return b.getDictionaryAttr({b.getNamedAttr("kind", b.getStringAttr("constant")),
                                b.getNamedAttr("a", b.getF64FloatAttr(policy_.initial)),
                                b.getNamedAttr("b", b.getF64FloatAttr(0)), b.getNamedAttr("stream", b.getI64IntegerAttr(0)),
                                b.getNamedAttr("tensor", b.getStringAttr(""))});
  }

  static NamedResult update(Value value, Value argument) {
    Builder b(value.getContext());
    auto number = b.getI64IntegerAttr(cast<BlockArgument>(argument).getArgNumber());
    return {value, b.getDictionaryAttr(b.getNamedAttr(tape::kUpdatesAttr, number))};
  }

  /// What a counter of steps in a row becomes, and whether it has reached `limit` and starts anew.
  std::pair<Value, Value> count(Value counter, Value counts, int64_t limit) {
    Value zero = t_.constantLike(counter, 0);
    Value next = t_.select(counts, t_.add(counter, t_.constantLike(counter, 1)), zero);
    Value reached = t_.compare("ge", next, t_.constantLike(counter, static_cast<double>(limit)));
    return {t_.select(reached, zero, next), reached};
  }

  void addUpdates(SmallVectorImpl<NamedResult> &results) {
    Value no = t_.constantLike(found_, 0), yes = t_.constantLike(found_, 1);
    auto [good, grows] = count(good_, t_.select(found_, no, yes), policy_.goodSteps);
    results.push_back(update(good, good_));
    Value shrinks = found_;
    if (bad_) {
      Value bad;
      std::tie(bad, shrinks) = count(bad_, found_, policy_.badSteps);
      results.push_back(update(bad, bad_));
    }
    Value larger = t_.mul(scale_, policy_.growth), smaller = t_.mul(scale_, policy_.backoff);
    Value finite = t_.compare("lt", larger, t_.constantLike(scale_, std::numeric_limits<double>::infinity()));
    if (policy_.least > 0)
      smaller = t_.maximum(smaller, t_.constantLike(scale_, policy_.least));
    Value grown = t_.select(grows, t_.select(finite, larger, scale_), scale_);
    results.push_back(update(t_.select(shrinks, smaller, grown), scale_));
  }

  func::FuncOp step_;
  const Policy &policy_;
  tape::TapeBuilder t_;
  Value scale_, good_, bad_, skippedSteps_, found_;
};

/// What build-backward starts from: the first op of its phase, the loss's gradient with respect to itself.
tape::ConstantOp findSeed(func::FuncOp step) {
  for (Operation &op : step.getBody().front())
    if (op.getAttr(tape::kPhaseAttr) == StringAttr::get(step.getContext(), "backward"))
      return dyn_cast<tape::ConstantOp>(op);
  return {};
}

struct InsertLossScaling : impl::InsertLossScalingBase<InsertLossScaling> {
  using InsertLossScalingBase::InsertLossScalingBase;

  void runOnOperation() override {
    std::optional<Policy> chosen = policyOf(policy);
    if (!chosen) {
      getOperation().emitError() << "there is no loss scale '" << policy << "'; use torch, paddle or a positive number";
      return signalPassFailure();
    }
    auto step = getOperation().lookupSymbol<func::FuncOp>("step");
    tape::ConstantOp seed = step ? findSeed(step) : tape::ConstantOp();
    if (!seed) {
      getOperation().emitError("insert-loss-scaling needs the gradients of @step as they are right after build-backward");
      return signalPassFailure();
    }
    OpBuilder builder(seed);
    PhaseScope phase(builder, "optimizer");
    LossScaling scaling(step, *chosen, builder);
    seed.getResult().replaceAllUsesWith(scaling.scale());
    seed.erase();
    builder.setInsertionPoint(step.getBody().front().getTerminator());
    SmallVector<NamedResult> results = getResults(step);
    scaling.unscale(results);
    scaling.addResults(results);
    setResults(step, results);
  }
};

} // namespace
} // namespace tapeout
