// tape-verify-precision: what insert-amp-casts promises. Ops of class Never or Inside and the optimizer have no operand in
// low precision; an op's tensors agree; a parameter is narrowed at most once in each function; @step updates the copy of every
// parameter that it updates. Changes nothing.
#include "passes/Functions.h"
#include "passes/Passes.h"

#include "llvm/ADT/DenseSet.h"

using namespace mlir;

namespace tapeout {
#define GEN_PASS_DEF_VERIFYPRECISION
#include "passes/Passes.h.inc"

namespace {

bool isLow(Value value) { return tape::isLowPrecision(tape::elementOf(value)); }
bool isFloatTensor(Value value) { return isa<FloatType>(tape::elementOf(value)) && tape::rankOf(value) > 0; }

bool isConversion(Operation *op) {
  return op->getNumOperands() == 1 && op->getNumResults() == 1 &&
         tape::elementOf(op->getOperand(0)) != tape::elementOf(op->getResult(0)) &&
         cast<tape::FactsOpInterface>(op).getFusionKind() == tape::FusionKind::Elementwise;
}

LogicalResult verifyOp(Operation &op) {
  auto facts = cast<tape::FactsOpInterface>(op);
  bool optimizer = op.getAttr(tape::kPhaseAttr) == StringAttr::get(op.getContext(), "optimizer");
  tape::AmpClass amp = facts.getAmpClass();
  if (amp == tape::AmpClass::Never || amp == tape::AmpClass::Inside || optimizer)
    if (llvm::any_of(op.getOperands(), isLow))
      return op.emitError() << "'" << op.getName() << "' must run in f32, but an operand is of low precision";
  Value first;
  for (OpOperand &operand : op.getOpOperands()) {
    if (!isFloatTensor(operand.get()) || facts.keepsPrecision(operand.getOperandNumber()))
      continue;
    if (first && tape::elementOf(first) != tape::elementOf(operand.get()))
      return op.emitError() << "'" << op.getName() << "' reads both " << tape::elementOf(first) << " and "
                            << tape::elementOf(operand.get());
    first = first ? first : operand.get();
  }
  return success();
}

LogicalResult verifyCasts(func::FuncOp func) {
  for (unsigned i : argumentsWithRole(func, tape::kRoleParameter)) {
    auto narrows = [](Operation *user) { return isConversion(user) && isLow(user->getResult(0)); };
    if (auto count = llvm::count_if(func.getArgument(i).getUsers(), narrows); count > 1)
      return func.emitError() << "parameter '" << argumentAttr(func, i, tape::kNameAttr) << "' is narrowed " << count
                              << " times in @" << func.getName() << " instead of once";
  }
  return success();
}

LogicalResult verifyCopies(func::FuncOp step) {
  llvm::DenseSet<int64_t> updated;
  llvm::DenseSet<StringRef> trained;
  for (unsigned i = 0; i < step.getNumResults(); ++i)
    if (auto target = step.getResultAttrOfType<IntegerAttr>(i, tape::kUpdatesAttr)) {
      updated.insert(target.getInt());
      trained.insert(argumentAttr(step, target.getInt(), tape::kNameAttr));
    }
  for (unsigned i : argumentsWithRole(step, tape::kRoleCopy)) {
    StringRef name = argumentAttr(step, i, tape::kNameAttr);
    if (trained.contains(name.substr(name.find('/') + 1)) && !updated.contains(i))
      return step.emitError() << "'" << name << "' is not updated with its parameter";
  }
  return success();
}

struct VerifyPrecision : impl::VerifyPrecisionBase<VerifyPrecision> {
  void runOnOperation() override {
    bool failed = false;
    for (auto func : getOperation().getOps<func::FuncOp>()) {
      for (Operation &op : func.getBody().front().without_terminator())
        failed |= mlir::failed(verifyOp(op));
      failed |= mlir::failed(verifyCasts(func));
    }
    if (auto step = getOperation().lookupSymbol<func::FuncOp>("step"))
      failed |= mlir::failed(verifyCopies(step));
    if (failed)
      signalPassFailure();
  }
};

} // namespace
} // namespace tapeout
