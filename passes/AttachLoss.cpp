// tape-attach-loss: @forward becomes @step (with loss, config, counter and random keys) and @evaluate (loss sum and
// count, nothing drawn, running statistics instead of those of the batch). The loss is the sum over counted positions
// divided by their number: means of means would be wrong as soon as microbatches or ranks count differently.
#include "passes/Functions.h"
#include "passes/Passes.h"

#include "ir/tape/Loss.h"
#include "ir/tape/Shape.h"
#include "ir/tape/TapeBuilder.h"
#include "runtime/base/Hyperparameters.h"

using namespace mlir;

namespace tapeout {
#define GEN_PASS_DEF_ATTACHLOSS
#include "passes/Passes.h.inc"

namespace {

struct LossTerms {
  Value sum, count; // rank 0, the prediction's element type
};

LossTerms buildCrossEntropy(tape::TapeBuilder &t, Value logits, Value labels, int64_t ignoreIndex, double smoothing) {
  Value losses = t.builder().create<tape::CrossEntropyOp>(t.loc(), logits, labels, ignoreIndex, APFloat(smoothing)).getLosses();
  Value counted = t.compare("ne", labels, t.constantLike(labels, static_cast<double>(ignoreIndex)));
  return {t.reduceAll("sum", losses), t.reduceAll("sum", t.convert(counted, tape::elementOf(logits)))};
}

// The mean over all elements of the prediction, as PyTorch's MSELoss.
LossTerms buildMeanSquaredError(tape::TapeBuilder &t, Value prediction, Value target) {
  Value difference = t.sub(prediction, target);
  double count = static_cast<double>(tape::elementCount(prediction.getType()));
  return {t.reduceAll("sum", t.mul(difference, difference)), t.constantLike(prediction, count)};
}

func::FuncOp cloneAs(func::FuncOp forward, StringRef name) {
  OpBuilder builder(forward);
  auto clone = cast<func::FuncOp>(builder.clone(*forward));
  clone.setName(name);
  return clone;
}

void giveRandomKeys(func::FuncOp step, Value config, Value counter) {
  OpBuilder builder(step.getContext());
  Value seed;
  uint64_t stream = 0;
  step.walk([&](tape::StochasticOpInterface op) {
    if (!op.isStochastic())
      return;
    if (!seed) {
      builder.setInsertionPointToStart(&step.getBody().front());
      tape::TapeBuilder t(builder, step.getLoc());
      seed = builder.create<tape::HyperparameterOp>(t.loc(), config, static_cast<int64_t>(Hyperparameter::Seed));
      seed = t.convert(seed, builder.getI64Type());
    }
    op.setRandomKey(seed, counter, stream++);
  });
}

// The running statistics after the step, tied to their parameters.
void addStateUpdates(tape::StatefulOpInterface op, SmallVectorImpl<NamedResult> &results) {
  Builder builder(op.getContext());
  for (auto [operand, result] : op.getStateUpdates()) {
    unsigned argument = cast<BlockArgument>(op->getOperand(operand)).getArgNumber(); // the importer has checked it
    results.push_back({op->getResult(result),
                       builder.getDictionaryAttr(builder.getNamedAttr(tape::kUpdatesAttr, builder.getI64IntegerAttr(argument)))});
  }
}

// Draws nothing, and reads running statistics instead of taking new ones.
void withoutTraining(func::FuncOp func) {
  func.walk([](tape::StochasticOpInterface op) { op.dropRandomness(); });
  func.walk([](tape::StatefulOpInterface op) {
    op.useState();
    op.erase();
  });
}

struct AttachLoss : impl::AttachLossBase<AttachLoss> {
  using AttachLossBase::AttachLossBase;

  LossTerms attach(func::FuncOp func, OpBuilder &builder, double smoothing) {
    Operation *terminator = func.getBody().front().getTerminator();
    Value prediction = terminator->getOperand(0);
    bool classes = loss == "cross_entropy";
    Type labelType = prediction.getType();
    if (classes)
      labelType = RankedTensorType::get(tape::shapeOf(prediction).drop_back(), builder.getI32Type());
    Value labels = addArgument(func, labelType, tape::kRoleInput, "labels");
    builder.setInsertionPoint(terminator);
    tape::TapeBuilder t(builder, NameLoc::get(builder.getStringAttr("loss")));
    return classes ? buildCrossEntropy(t, prediction, labels, ignoreIndex, smoothing)
                   : buildMeanSquaredError(t, prediction, labels);
  }

  void buildStep(func::FuncOp step) {
    OpBuilder builder(step.getContext());
    PhaseScope phase(builder, "loss");
    LossTerms terms = attach(step, builder, labelSmoothing);
    Value config = addArgument(step, RankedTensorType::get({kConfigSlotLength}, builder.getF64Type()), tape::kRoleConfig, "config");
    Value counter = addArgument(step, RankedTensorType::get({}, builder.getI64Type()), tape::kRoleCounter, "step");
    tape::TapeBuilder t(builder, NameLoc::get(builder.getStringAttr("loss")));
    Value mean = t.div(terms.sum, t.maximum(terms.count, t.constantLike(terms.count, 1)));
    SmallVector<NamedResult> results = {namedResult(mean, "loss"), namedResult(terms.count, "count")};
    step.walk([&](tape::StatefulOpInterface op) { addStateUpdates(op, results); });
    setResults(step, results);
    giveRandomKeys(step, config, counter);
  }

  void buildEvaluate(func::FuncOp evaluate) {
    OpBuilder builder(evaluate.getContext());
    LossTerms terms = attach(evaluate, builder, /*smoothing=*/0);
    setResults(evaluate, {namedResult(terms.sum, "loss_sum"), namedResult(terms.count, "count")});
    withoutTraining(evaluate);
  }

  void runOnOperation() override {
    auto forward = getOperation().lookupSymbol<func::FuncOp>("forward");
    if (!forward || forward.getNumResults() == 0) {
      getOperation().emitError("attach-loss needs a function @forward that returns the prediction first");
      return signalPassFailure();
    }
    if (loss != "cross_entropy" && loss != "mean_squared_error") {
      getOperation().emitError() << "there is no loss '" << loss << "'; use cross_entropy or mean_squared_error";
      return signalPassFailure();
    }
    buildStep(cloneAs(forward, "step"));
    buildEvaluate(cloneAs(forward, "evaluate"));
    for (auto func : getOperation().getOps<func::FuncOp>())
      if (func.getName() == "predict")
        withoutTraining(func);
    forward.erase();
  }
};

} // namespace
} // namespace tapeout
