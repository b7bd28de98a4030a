// tape-select-library-attention: attention that one call of the target's library computes.
//
// With dropout the call gets the key of the library's generator (Philox) instead of ours: as seed the run's seed and the
// op's stream, as offset the step, far enough apart for all that a step draws. With padding it gets lengths in range.
#include "passes/Passes.h"

#include "ir/tape/Attention.h"
#include "ir/tape/TapeBuilder.h"
#include "ir/tape/Target.h"

#include "llvm/ADT/DenseMap.h"

using namespace mlir;

namespace tapeout {
#define GEN_PASS_DEF_SELECTLIBRARYATTENTION
#include "passes/Passes.h.inc"

namespace {

constexpr double kStreamDistance = 0x1p53; // seeds are whole numbers that an f64 holds
constexpr uint64_t kStreams = 1024;        // of i64 seeds so far apart
constexpr double kStepDistance = 0x1p32;

/// Whether the library has it: 16 bits, whole 16-byte pieces of heads, as many keys as queries. Forward and gradient are of
/// one shape and therefore both selected: they must drop the same probabilities.
template <typename Op> bool isLibraryAttention(Op op, int64_t largestHead) {
  ArrayRef<int64_t> query = tape::shapeOf(op.getQuery()), key = tape::shapeOf(op.getKey());
  return tape::isLowPrecision(tape::elementOf(op.getQuery())) && query[3] <= largestHead && query[3] % 8 == 0 &&
         query[1] == key[1] && (!op.isStochastic() || (op.hasRandomKey() && op.getStream() < kStreams));
}

/// What the library takes instead of the op's own numbers: a key of its generator for each stream, and lengths that stay within
/// the tokens whatever the data says, since its kernels believe them.
class LibraryNumbers {
public:
  template <typename Op> void give(Op op) {
    if (op.isStochastic())
      giveKey(op);
    if (op.getLengths())
      giveLengths(op);
  }

private:
  template <typename Op> void giveLengths(Op op) {
    OpBuilder builder(op);
    tape::TapeBuilder t(builder, op.getLoc());
    int64_t tokens = tape::shapeOf(op.getQuery())[1];
    auto [lengths, isNew] = lengths_.try_emplace({op.getLengths(), tokens});
    if (isNew) {
      Value least = t.maximum(op.getLengths(), t.constantLike(op.getLengths(), 1)), most = t.constantLike(least, tokens);
      lengths->second = t.select(t.compare("lt", least, most), least, most);
    }
    op.getLengthsMutable().assign(lengths->second);
  }
  template <typename Op> void giveKey(Op op) {
    OpBuilder builder(op);
    tape::TapeBuilder t(builder, op.getLoc());
    auto [key, isNew] = keys_.try_emplace({op.getSeed(), op.getStep(), op.getStream()});
    if (isNew) {
      Value &offset = offsets_[op.getStep()];
      if (!offset)
        offset = t.mul(op.getStep(), kStepDistance);
      key->second = {t.add(op.getSeed(), t.constantLike(op.getSeed(), double(op.getStream()) * kStreamDistance)), offset};
    }
    op.setRandomKey(key->second.first, key->second.second, op.getStream());
  }

  llvm::DenseMap<std::tuple<Value, Value, uint64_t>, std::pair<Value, Value>> keys_;
  llvm::DenseMap<std::pair<Value, int64_t>, Value> lengths_;
  llvm::DenseMap<Value, Value> offsets_;
};

struct SelectLibraryAttention : impl::SelectLibraryAttentionBase<SelectLibraryAttention> {
  using SelectLibraryAttentionBase::SelectLibraryAttentionBase;

  void runOnOperation() override {
    const tape::Target &target = tape::targetOf(getOperation());
    const int64_t largestHead = target.attentionHeadSize == 0 || headSize == 0 ? target.attentionHeadSize : headSize;
    LibraryNumbers numbers;
    auto select = [&](auto op) {
      op.setLibrary(isLibraryAttention(op, largestHead));
      if (op.getLibrary())
        numbers.give(op);
      return op.getLibrary();
    };
    getOperation().walk([&](Operation *op) { // in the order of execution
      if (auto attention = dyn_cast<tape::AttentionOp>(op))
        select(attention);
      else if (auto gradient = dyn_cast<tape::AttentionGradOp>(op))
        gradient.setNondeterministic(select(gradient) && !deterministic);
    });
  }
};

} // namespace
} // namespace tapeout
