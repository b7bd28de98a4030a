// tape-select-library-attention: attention that one call of the target's library computes.
#include "passes/Passes.h"

#include "ir/tape/Attention.h"
#include "ir/tape/Target.h"

using namespace mlir;

namespace tapeout {
#define GEN_PASS_DEF_SELECTLIBRARYATTENTION
#include "passes/Passes.h.inc"

namespace {

/// Whether the library has it: 16 bits, whole 16-byte pieces of heads, as many heads and tokens of keys as of queries, nothing
/// random. Forward and gradient are asked one by one: the log-sum-exp between them is the same either way.
template <typename Op> bool isLibraryAttention(Op op, const tape::Target &target) {
  ArrayRef<int64_t> query = tape::shapeOf(op.getQuery());
  return tape::isLowPrecision(tape::elementOf(op.getQuery())) && query[3] <= target.attentionHeadSize && query[3] % 8 == 0 &&
         query == tape::shapeOf(op.getKey()) && !op.isStochastic();
}

struct SelectLibraryAttention : impl::SelectLibraryAttentionBase<SelectLibraryAttention> {
  void runOnOperation() override {
    const tape::Target &target = tape::targetOf(getOperation());
    auto select = [&](auto op) { op.setLibrary(isLibraryAttention(op, target)); };
    getOperation().walk([&](tape::AttentionOp op) { select(op); });
    getOperation().walk([&](tape::AttentionGradOp op) { select(op); });
  }
};

} // namespace
} // namespace tapeout
