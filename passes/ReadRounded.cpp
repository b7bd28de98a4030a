// tape-read-rounded: sums over the rows of a gradient in f32 that a product reads in 16 bits, such as those of a bias behind
// logits, read the 16 bits too where the sum needs a kernel of its own: the gradient is then not in memory twice. Kernels that
// compute the rows can take the sums of their bands from registers (tape::bandsOf), exactly.
#include "passes/Passes.h"

#include "ir/tape/Elementwise.h"
#include "ir/tape/Reduction.h"
#include "ir/tape/Shape.h"
#include "ir/tape/TapeBuilder.h"
#include "ir/tape/Target.h"

using namespace mlir;

namespace tapeout {
#define GEN_PASS_DEF_READROUNDED
#include "passes/Passes.h.inc"

namespace {

/// The 16-bit copy of a value that a library call reads, or null.
tape::ConvertOp findRounded(Value value) {
  for (Operation *user : value.getUsers()) {
    auto convert = dyn_cast<tape::ConvertOp>(user);
    if (convert && tape::isLowPrecision(tape::elementOf(convert.getResult())) &&
        llvm::any_of(convert->getUsers(), tape::isLibraryCall))
      return convert;
  }
  return nullptr;
}

void readRounded(tape::ReduceOp reduce) {
  Value value = reduce.getOperand();
  while (auto reshape = value.getDefiningOp<tape::ReshapeOp>())
    value = reshape.getOperand();
  if (!value.getDefiningOp() || !tape::elementOf(value).isF32())
    return;
  tape::ConvertOp rounded = findRounded(value);
  if (!rounded)
    return;
  rounded->moveAfter(value.getDefiningOp()); // the sum may come before the product
  OpBuilder builder(reduce);
  tape::TapeBuilder t(builder, reduce.getLoc());
  Value wide = t.convert(rounded.getResult(), tape::elementOf(value));
  Value operand = t.reshape(wide, tape::shapeOf(reduce.getOperand()));
  for (Value made : {wide, operand})
    if (Attribute phase = reduce->getAttr(tape::kPhaseAttr))
      made.getDefiningOp()->setAttr(tape::kPhaseAttr, phase);
  reduce.getOperandMutable().assign(operand);
}

struct ReadRounded : impl::ReadRoundedBase<ReadRounded> {
  void runOnOperation() override {
    bool inRowKernels = tape::targetOf(getOperation()).bandsInRowKernels;
    SmallVector<tape::ReduceOp> sums;
    getOperation().walk([&](tape::ReduceOp reduce) {
      auto phase = reduce->getAttrOfType<StringAttr>(tape::kPhaseAttr);
      bool ofGradients = phase && phase == "backward" && reduce.getKind() == "sum";
      if (ofGradients && !tape::reducesRows(reduce) && !(inRowKernels && tape::bandsOf(reduce)))
        sums.push_back(reduce);
    });
    for (tape::ReduceOp reduce : sums)
      readRounded(reduce);
  }
};

} // namespace
} // namespace tapeout
