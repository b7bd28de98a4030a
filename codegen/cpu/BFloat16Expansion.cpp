#include "codegen/cpu/BFloat16Expansion.h"

#include "ir/tape/Scalars.h"

#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;

namespace tapeout::codegen {
namespace {

class Expansion {
public:
  Expansion(OpBuilder &builder, Location loc) : builder_(builder), loc_(loc), s_(builder, loc) {}

  // The upper half of the f32.
  Value widen(Value bf16) {
    Value bits = builder_.create<arith::ExtUIOp>(loc_, typeLike(bf16, builder_.getI32Type()), cast(bf16, builder_.getI16Type()));
    return cast(builder_.create<arith::ShLIOp>(loc_, bits, s_.constantInt(bits, 16)), builder_.getF32Type());
  }

  // To nearest, ties to even: adding just below half, and one more where the last bit is odd. A NaN could overflow.
  Value narrow(Value f32) {
    Value bits = cast(f32, builder_.getI32Type()), high = s_.shiftRight(bits, 16);
    Value odd = s_.bitAnd(high, s_.constantInt(high, 1));
    Value rounded = s_.shiftRight(s_.add(s_.add(bits, s_.constantInt(bits, 0x7fff)), odd), 16);
    Value quiet = builder_.create<arith::OrIOp>(loc_, high, s_.constantInt(high, 0x40));
    Value result = s_.select(s_.compare("ne", f32, f32), quiet, rounded);
    return cast(s_.convert(result, builder_.getI16Type()), builder_.getBF16Type());
  }

private:
  static Type typeLike(Value value, Type element) { return tape::withElement(value.getType(), element); }
  Value cast(Value value, Type element) {
    return builder_.create<arith::BitcastOp>(loc_, typeLike(value, element), value);
  }

  OpBuilder &builder_;
  Location loc_;
  tape::ScalarBuilder s_;
};

bool isBF16(Value value) { return getElementTypeOrSelf(value.getType()).isBF16(); }

} // namespace

void expandBFloat16(Operation *function) {
  function->walk([](Operation *op) {
    if (!isa<arith::ExtFOp, arith::TruncFOp>(op))
      return;
    Value from = op->getOperand(0), to = op->getResult(0);
    if (!isBF16(from) && !isBF16(to))
      return;
    OpBuilder builder(op);
    Expansion expansion(builder, op->getLoc());
    to.replaceAllUsesWith(isBF16(from) ? expansion.widen(from) : expansion.narrow(from));
    op->erase();
  });
}

} // namespace tapeout::codegen
