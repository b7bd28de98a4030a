// tape-widen-windows: convolutions and poolings of bf16 or f16 run on f32 copies of their operands, for targets whose library
// has them in f32 only (the cpu). Sums are formed in f32 and rounded once either way.
#include "passes/Functions.h"
#include "passes/Passes.h"

#include "ir/tape/TapeBuilder.h"

using namespace mlir;

namespace tapeout {
#define GEN_PASS_DEF_WIDENWINDOWS
#include "passes/Passes.h.inc"

namespace {

void widen(Operation *op) {
  OpBuilder builder(op);
  auto phase = op->getAttrOfType<StringAttr>(tape::kPhaseAttr);
  auto convert = [&](Value value, Type element) {
    Value converted = tape::TapeBuilder(builder, op->getLoc()).convert(value, element);
    if (phase && converted != value)
      converted.getDefiningOp()->setAttr(tape::kPhaseAttr, phase);
    return converted;
  };
  for (OpOperand &operand : op->getOpOperands())
    operand.set(convert(operand.get(), tape::computeType(tape::elementOf(operand.get()))));
  builder.setInsertionPointAfter(op);
  for (OpResult result : op->getResults()) {
    Type narrow = tape::elementOf(result);
    if (!tape::isLowPrecision(narrow))
      continue;
    result.setType(RankedTensorType::get(tape::shapeOf(result), tape::computeType(narrow)));
    Value rounded = convert(result, narrow);
    result.replaceAllUsesExcept(rounded, rounded.getDefiningOp());
  }
}

struct WidenWindows : impl::WidenWindowsBase<WidenWindows> {
  void runOnOperation() override {
    getOperation().walk([](tape::WindowOpInterface op) {
      if (llvm::any_of(op->getOperands(), [](Value operand) { return tape::isLowPrecision(tape::elementOf(operand)); }))
        widen(op);
    });
  }
};

} // namespace
} // namespace tapeout
