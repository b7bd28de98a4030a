// tape-attach-optimizer: consumes the gradient results of @step and returns updated parameters, optimizer state and step
// counter instead, each tied to its argument by tape.updates. Hyperparameters come from the config slot, so changing
// them rebuilds nothing. Where @step has a result "skipped", a skipped step keeps all of them, so that the learning rate's
// schedule counts the steps that have trained.
#include "passes/Functions.h"
#include "passes/NamePatterns.h"
#include "passes/Passes.h"

#include "ir/tape/Optimizer.h"
#include "ir/tape/Shape.h"
#include "ir/tape/TapeBuilder.h"
#include "runtime/base/Hyperparameters.h"

using namespace mlir;

namespace tapeout {
#define GEN_PASS_DEF_ATTACHOPTIMIZER
#include "passes/Passes.h.inc"

namespace {

/// What all updates of a step share: rank-0 f64 values.
struct StepScalars {
  Value lr, weightDecay, zero, beta1, beta2, epsilon, momentum, correction1, correction2;
};

class Updates {
public:
  size_t stateCount() const { return stateKinds().size(); }

  Updates(func::FuncOp step, OpBuilder &builder, StringRef optimizer) : step_(step), builder_(builder), optimizer_(optimizer) {
    tape::TapeBuilder t(builder, NameLoc::get(builder.getStringAttr("optimizer")));
    skipped_ = findResult(step, "skipped");
    config_ = findArgument(step, tape::kRoleConfig);
    counter_ = findArgument(step, tape::kRoleCounter);
    auto read = [&](Hyperparameter field) -> Value {
      return builder.create<tape::HyperparameterOp>(t.loc(), config_, static_cast<int64_t>(field));
    };
    scalars_.lr = builder.create<tape::LearningRateOp>(
        t.loc(), counter_, read(Hyperparameter::LearningRate), read(Hyperparameter::MinLearningRateRatio),
        read(Hyperparameter::Schedule), read(Hyperparameter::WarmupSteps), read(Hyperparameter::TotalSteps));
    scalars_.weightDecay = read(Hyperparameter::WeightDecay);
    scalars_.zero = t.constant(builder.getF64Type(), 0);
    if (isAdam()) {
      scalars_.beta1 = read(Hyperparameter::Beta1);
      scalars_.beta2 = read(Hyperparameter::Beta2);
      scalars_.epsilon = read(Hyperparameter::Epsilon);
      scalars_.correction1 = builder.create<tape::BiasCorrectionOp>(t.loc(), counter_, scalars_.beta1);
      scalars_.correction2 = builder.create<tape::BiasCorrectionOp>(t.loc(), counter_, scalars_.beta2);
    } else if (hasMomentum()) {
      scalars_.momentum = read(Hyperparameter::Momentum);
    }
  }

  void addMetricsAndCounter(SmallVectorImpl<NamedResult> &results) {
    tape::TapeBuilder t(builder_, NameLoc::get(builder_.getStringAttr("optimizer")));
    results.push_back(namedResult(scalars_.lr, "lr"));
    results.push_back(update(t.add(counter_, t.constantLike(counter_, 1)), counter_.getArgNumber()));
  }

  /// The state tensors of one parameter: "m" and "v", "momentum" or none.
  void describeState(unsigned argument, SmallVectorImpl<ArgumentSpec> &specs) {
    StringRef parameter = argumentAttr(step_, argument, tape::kNameAttr);
    for (StringRef kind : stateKinds())
      specs.push_back({step_.getArgumentTypes()[argument], tape::kRoleState.str(), (optimizer_ + "." + kind + "/" + parameter).str()});
  }

  /// `state` are the arguments of describeState.
  void updateParameter(unsigned argument, Value gradient, bool decays, ArrayRef<BlockArgument> state,
                       SmallVectorImpl<NamedResult> &results) {
    Value parameter = step_.getArgument(argument), decay = decays ? scalars_.weightDecay : scalars_.zero;
    StringRef name = argumentAttr(step_, argument, tape::kNameAttr);
    Location loc = NameLoc::get(builder_.getStringAttr(name));
    const StepScalars &s = scalars_;
    if (isAdam()) {
      BlockArgument m = state[0], v = state[1];
      auto op = builder_.create<tape::AdamOp>(loc, parameter, gradient, m, v, s.lr, decay, s.beta1, s.beta2, s.epsilon,
                                              s.correction1, s.correction2, optimizer_ == "adamw");
      results.push_back(update(op.getNewParameter(), argument));
      results.push_back(update(op.getNewM(), m.getArgNumber()));
      results.push_back(update(op.getNewV(), v.getArgNumber()));
    } else if (hasMomentum()) {
      BlockArgument buffer = state[0];
      auto op = builder_.create<tape::SgdMomentumOp>(loc, parameter, gradient, buffer, s.lr, decay, s.momentum,
                                                     optimizer_ == "nesterov");
      results.push_back(update(op.getNewParameter(), argument));
      results.push_back(update(op.getNewBuffer(), buffer.getArgNumber()));
    } else {
      Value updated = builder_.create<tape::SgdOp>(loc, parameter, gradient, s.lr, decay);
      results.push_back(update(updated, argument));
    }
  }

private:
  bool isAdam() const { return optimizer_ == "adamw" || optimizer_ == "adam"; }
  SmallVector<StringRef, 2> stateKinds() const {
    if (isAdam())
      return {"m", "v"};
    return hasMomentum() ? SmallVector<StringRef, 2>{"momentum"} : SmallVector<StringRef, 2>{};
  }
  bool hasMomentum() const { return optimizer_ == "momentum" || optimizer_ == "nesterov"; }

  NamedResult update(Value value, unsigned argument) {
    if (skipped_)
      value = tape::TapeBuilder(builder_, value.getLoc()).select(skipped_, step_.getArgument(argument), value);
    return {value, builder_.getDictionaryAttr(builder_.getNamedAttr(tape::kUpdatesAttr, builder_.getI64IntegerAttr(argument)))};
  }

  func::FuncOp step_;
  OpBuilder &builder_;
  StringRef optimizer_;
  Value skipped_; // i1 or null: nothing is ever skipped
  BlockArgument config_, counter_;
  StepScalars scalars_;
};

struct AttachOptimizer : impl::AttachOptimizerBase<AttachOptimizer> {
  using AttachOptimizerBase::AttachOptimizerBase;

  void runOnOperation() override {
    auto step = getOperation().lookupSymbol<func::FuncOp>("step");
    if (!step || !findArgument(step, tape::kRoleConfig) || !findArgument(step, tape::kRoleCounter)) {
      getOperation().emitError("attach-optimizer needs a function @step with config and counter; run attach-loss first");
      return signalPassFailure();
    }
    static constexpr StringRef kOptimizers[] = {"adamw", "adam", "sgd", "momentum", "nesterov"};
    if (!llvm::is_contained(kOptimizers, StringRef(optimizer))) {
      step.emitError() << "there is no optimizer '" << optimizer << "'; use adamw, adam, sgd, momentum or nesterov";
      return signalPassFailure();
    }
    FailureOr<NamePatterns> withoutDecay = NamePatterns::create(step, llvm::to_vector(noDecay));
    if (failed(withoutDecay))
      return signalPassFailure();

    OpBuilder builder(step.getBody().front().getTerminator());
    PhaseScope phase(builder, "optimizer");
    Updates updates(step, builder, optimizer);
    SmallVector<NamedResult> results, gradients;
    for (const NamedResult &result : getResults(step))
      (result.attributes && result.attributes.contains(tape::kGradientOfAttr) ? gradients : results).push_back(result);
    updates.addMetricsAndCounter(results);
    auto argumentOf = [](const NamedResult &gradient) -> unsigned {
      return gradient.attributes.getAs<IntegerAttr>(tape::kGradientOfAttr).getInt();
    };
    SmallVector<ArgumentSpec> specs;
    for (const NamedResult &gradient : gradients)
      updates.describeState(argumentOf(gradient), specs);
    SmallVector<BlockArgument> states = addArguments(step, specs);
    for (auto [i, gradient] : llvm::enumerate(gradients)) {
      unsigned argument = argumentOf(gradient);
      bool decays = !withoutDecay->match(argumentAttr(step, argument, tape::kNameAttr));
      updates.updateParameter(argument, gradient.value, decays,
                              ArrayRef(states).slice(i * updates.stateCount(), updates.stateCount()), results);
    }
    setResults(step, results);
    if (failed(withoutDecay->checkAllUsed(step, "--no-decay", "trained parameter")))
      signalPassFailure();
  }
};

} // namespace
} // namespace tapeout
