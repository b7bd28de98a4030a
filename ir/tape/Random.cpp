#include "ir/tape/Random.h"

#include "ir/tape/Scalars.h"
#include "ir/tape/TapeBuilder.h"

#include <cmath>

#define GET_OP_CLASSES
#include "ir/tape/Random.cpp.inc"

using namespace mlir;

namespace tapeout::tape {

void registerRandomOps(TapeDialect &dialect) {
  addOps<
#define GET_OP_LIST
#include "ir/tape/Random.cpp.inc"
      >(dialect);
}

namespace {
// Philox4x32-10 (Salmon et al. 2011), as in runtime/base/Philox.h. Returns the first word.
Value philox(ScalarBuilder &s, std::array<Value, 4> counter, std::array<Value, 2> key) {
  for (int round = 0; round < 10; ++round) {
    if (round > 0)
      key = {s.add(key[0], s.constantInt(key[0], int32_t(0x9E3779B9))),
             s.add(key[1], s.constantInt(key[1], int32_t(0xBB67AE85)))};
    auto [low0, high0] = s.mulWide(counter[0], s.constantInt(counter[0], int32_t(0xD2511F53)));
    auto [low1, high1] = s.mulWide(counter[2], s.constantInt(counter[2], int32_t(0xCD9E8D57)));
    counter = {s.bitXor(s.bitXor(high1, counter[1]), key[0]), low1, s.bitXor(s.bitXor(high0, counter[3]), key[1]), low0};
  }
  return counter[0];
}
} // namespace

bool DropoutOp::isStochastic() { return !getRate().isZero(); }
bool DropoutOp::hasRandomKey() { return getSeed() != nullptr; }
void DropoutOp::setRandomKey(Value seed, Value step, uint64_t stream) {
  getSeedMutable().assign(seed);
  getStepMutable().assign(step);
  setStream(stream);
}
void DropoutOp::dropRandomness() {
  setRateAttr(FloatAttr::get(Float64Type::get(getContext()), 0.0));
  getSeedMutable().clear();
  getStepMutable().clear();
}
LogicalResult DropoutOp::verify() {
  double rate = getRate().convertToDouble();
  if (!(rate >= 0 && rate < 1))
    return emitOpError("rate ") << rate << " is not in [0, 1)";
  return success();
}
OpFoldResult DropoutOp::fold(FoldAdaptor) { return isStochastic() ? OpFoldResult() : OpFoldResult(getOperand()); }

// The gradient draws the same mask again: nothing is saved.
void DropoutOp::buildGradient(OpBuilder &b, ArrayRef<Value> dy, SmallVectorImpl<Value> &gradients) {
  gradients.push_back(b.create<DropoutOp>(getLoc(), dy[0], getSeed(), getStep(), getRateAttr(), getStreamAttr()));
  gradients.resize(getNumOperands());
}

void DropoutOp::buildScalarBody(OpBuilder &b, Location loc, ValueRange args, Value index, SmallVectorImpl<Value> &results) {
  ScalarBuilder s(b, loc);
  Type i32 = b.getI32Type();
  Value x = args[0];
  if (args.size() < 3) { // no key: nothing is dropped (rate 0, before it folds away)
    results.push_back(x);
    return;
  }
  auto low = [&](Value value) { return s.convert(value, i32); };
  auto high = [&](Value value) { return s.convert(s.shiftRight(value, 32), i32); };
  Value seed = args[1], step = low(args[2]);
  Value word = philox(s, {low(index), high(index), step, s.constantInt(step, int32_t(getStream()))}, {low(seed), high(seed)});
  double rate = getRate().convertToDouble();
  Value wide = s.bitAnd(s.convert(word, b.getI64Type()), s.constantInt(index, 0xFFFFFFFF));
  Value kept = s.compare("ge", wide, s.constantInt(index, int64_t(std::llround(rate * 4294967296.0))));
  results.push_back(s.select(kept, s.mul(x, s.constant(x, 1.0 / (1.0 - rate))), s.constant(x, 0)));
}

} // namespace tapeout::tape
