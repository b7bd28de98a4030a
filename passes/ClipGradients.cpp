// tape-clip-gradients: scales all gradients of @step by min(1, clip / (norm + 1e-6)), norm = sqrt(sum of all g^2), as
// PyTorch's clip_grad_norm_. Tied weights count once: the norm runs over gradients of parameters. `clip` is a
// hyperparameter, so one executable trains with and without; clip <= 0 leaves the gradients alone.
#include "passes/Functions.h"
#include "passes/Passes.h"

#include "ir/tape/Reduction.h"
#include "ir/tape/Shape.h"
#include "ir/tape/TapeBuilder.h"
#include "runtime/base/Hyperparameters.h"

using namespace mlir;

namespace tapeout {
#define GEN_PASS_DEF_CLIPGRADIENTS
#include "passes/Passes.h.inc"

namespace {

bool isGradient(const NamedResult &result) {
  return result.attributes && result.attributes.contains(tape::kGradientOfAttr);
}

Value buildGlobalNorm(tape::TapeBuilder &t, ArrayRef<NamedResult> results) {
  SmallVector<Value> gradients;
  for (const NamedResult &result : results)
    if (isGradient(result))
      gradients.push_back(result.value);
  return gradients.empty() ? Value() : t.sqrt(t.builder().create<tape::SumOfSquaresOp>(t.loc(), gradients, Value()));
}

// min(1, clip / (norm + 1e-6)), or 1 where clip <= 0. Rank 0, f32.
Value buildClipFactor(tape::TapeBuilder &t, Value norm, Value clip) {
  Value one = t.constantLike(norm, 1), zero = t.constantLike(norm, 0);
  Value ratio = t.div(clip, t.add(norm, t.constantLike(norm, 1e-6)));
  Value enabled = t.compare("gt", clip, zero);
  Value keeps = t.compare("ge", ratio, one); // false for NaN, which then reaches the gradients and is seen
  return t.select(enabled, t.select(keeps, one, ratio), one);
}

struct ClipGradients : impl::ClipGradientsBase<ClipGradients> {
  void runOnOperation() override {
    auto step = getOperation().lookupSymbol<func::FuncOp>("step");
    Value config = step ? findArgument(step, tape::kRoleConfig) : Value();
    if (!config) {
      getOperation().emitError("clip-gradients needs a function @step with a config argument; run attach-loss first");
      return signalPassFailure();
    }
    OpBuilder builder(step.getBody().front().getTerminator());
    PhaseScope phase(builder, "optimizer");
    tape::TapeBuilder t(builder, NameLoc::get(builder.getStringAttr("clip")));
    SmallVector<NamedResult> results = getResults(step);
    Value norm = buildGlobalNorm(t, results);
    if (!norm)
      return; // nothing is trained
    Value clip = builder.create<tape::HyperparameterOp>(t.loc(), config, static_cast<int64_t>(Hyperparameter::ClipNorm));
    Value factor = buildClipFactor(t, norm, t.convert(clip, builder.getF32Type()));
    for (NamedResult &result : results)
      if (isGradient(result)) {
        tape::TapeBuilder scaled(builder, result.value.getLoc());
        result.value = scaled.mul(result.value, scaled.convert(factor, tape::elementOf(result.value)));
      }
    results.push_back(namedResult(norm, "grad_norm"));
    setResults(step, results);
  }
};

} // namespace
} // namespace tapeout
