// tape-verify-train-step: each trainable parameter, running statistic, state and counter of @step is updated exactly
// once, frozen parameters never, no gradient is left over, and every random op has its key. Changes nothing.
#include "passes/Functions.h"
#include "passes/Passes.h"

using namespace mlir;

namespace tapeout {
#define GEN_PASS_DEF_VERIFYTRAINSTEP
#include "passes/Passes.h.inc"

namespace {

bool mustBeUpdated(func::FuncOp step, unsigned argument) {
  StringRef role = argumentAttr(step, argument, tape::kRoleAttr);
  return isTrainable(step, argument) || role == tape::kRoleState || role == tape::kRoleCounter ||
         step.getArgAttr(argument, tape::kStatisticAttr);
}

LogicalResult verifyUpdates(func::FuncOp step) {
  SmallVector<unsigned> updates(step.getNumArguments(), 0);
  for (unsigned i = 0; i < step.getNumResults(); ++i) {
    if (step.getResultAttr(i, tape::kGradientOfAttr))
      return step.emitError() << "result " << i << " of @step is a gradient no optimizer has consumed";
    auto target = dyn_cast_or_null<IntegerAttr>(step.getResultAttr(i, tape::kUpdatesAttr));
    if (!target)
      continue;
    if (target.getInt() < 0 || target.getInt() >= int64_t(updates.size()) ||
        step.getResultTypes()[i] != step.getArgumentTypes()[target.getInt()])
      return step.emitError() << "result " << i << " of @step updates argument " << target.getInt()
                              << ", which is not there or of another type";
    ++updates[target.getInt()];
  }
  for (auto [argument, count] : llvm::enumerate(updates))
    if (count != (mustBeUpdated(step, argument) ? 1u : 0u))
      return step.emitError() << "argument '" << argumentAttr(step, argument, tape::kNameAttr) << "' of @step is updated "
                              << count << " times";
  return success();
}

struct VerifyTrainStep : impl::VerifyTrainStepBase<VerifyTrainStep> {
  void runOnOperation() override {
    auto step = getOperation().lookupSymbol<func::FuncOp>("step");
    if (!step) {
      getOperation().emitError("the module has no function @step");
      return signalPassFailure();
    }
    bool failed = mlir::failed(verifyUpdates(step));
    getOperation().walk([&](tape::StochasticOpInterface op) {
      if (op.isStochastic() && !op.hasRandomKey()) {
        op->emitError("draws random numbers without a key");
        failed = true;
      }
    });
    if (failed)
      signalPassFailure();
  }
};

} // namespace
} // namespace tapeout
