// tape-select-attention-kernels: gradients of attention that kernels written by hand compute, on the tensor cores of a Hopper
// GPU (codegen/cuda/device/AttentionGradient.cpp). They repeat their bits without the memory that the library needs for that.
#include "passes/Passes.h"

#include "ir/tape/Attention.h"
#include "ir/tape/Target.h"

using namespace mlir;

namespace tapeout {
#define GEN_PASS_DEF_SELECTATTENTIONKERNELS
#include "passes/Passes.h.inc"

namespace {

constexpr int64_t kHead = 64; // elements

/// 16 bits, every query with a key of its own, nothing dropped or padded. The kernels count blocks and tokens in 32 bits.
bool hasKernels(tape::AttentionGradOp op) {
  ArrayRef<int64_t> query = tape::shapeOf(op.getQuery()), key = tape::shapeOf(op.getKey());
  constexpr uint64_t kMostRows = uint64_t(1) << 30;
  return tape::isLowPrecision(tape::elementOf(op.getQuery())) && query[3] == kHead && query == key && !op.isStochastic() &&
         !op.getLengths() && uint64_t(query[0]) * query[1] * query[2] <= kMostRows;
}

void replace(tape::AttentionGradOp op) {
  OpBuilder b(op);
  auto ofQuery = b.create<tape::AttentionQueryGradientOp>(op.getLoc(), op.getQuery(), op.getKey(), op.getValue(), op.getOutput(),
                                                          op.getLse(), op.getGradient(), op.getCausalAttr(), op.getScaleAttr(),
                                                          DenseI64ArrayAttr());
  auto ofKeys = b.create<tape::AttentionKeyGradientsOp>(op.getLoc(), op.getQuery(), op.getKey(), op.getValue(), op.getGradient(),
                                                        ofQuery.getRows(), op.getCausalAttr(), op.getScaleAttr(),
                                                        DenseI64ArrayAttr());
  for (Operation *kernel : {ofQuery.getOperation(), ofKeys.getOperation()})
    if (Attribute phase = op->getAttr(tape::kPhaseAttr))
      kernel->setAttr(tape::kPhaseAttr, phase);
  op.replaceAllUsesWith(ValueRange{ofQuery.getQueryGradient(), ofKeys.getKeyGradient(), ofKeys.getValueGradient()});
  op.erase();
}

struct SelectAttentionKernels : impl::SelectAttentionKernelsBase<SelectAttentionKernels> {
  using SelectAttentionKernelsBase::SelectAttentionKernelsBase;

  void runOnOperation() override {
    if (!hopper || tape::targetOf(getOperation()).attentionHeadSize == 0)
      return;
    SmallVector<tape::AttentionGradOp> gradients;
    getOperation().walk([&](tape::AttentionGradOp op) {
      if (hasKernels(op))
        gradients.push_back(op);
    });
    llvm::for_each(gradients, replace);
  }
};

} // namespace
} // namespace tapeout
