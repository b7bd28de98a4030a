#include "codegen/kernel/F64Math.h"

#include "ir/tape/Scalars.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"

#include <limits>

using namespace mlir;

namespace tapeout::codegen {
namespace {

constexpr double kMagic = 6755399441055744.0; // 1.5 * 2^52: adding it rounds to an integer
constexpr double kLn2High = 6.93147180369123816490e-1, kLn2Low = 1.90821492927058770002e-10;
constexpr double kHalfPiHigh = 1.57079632679489661923, kHalfPiLow = 6.12323399573676603587e-17;

class F64Math {
public:
  F64Math(OpBuilder &builder, Location loc) : builder_(builder), loc_(loc), s_(builder, loc) {}

  // 2^n e^r with n = round(x / ln 2), scaled in two steps so that denormal results round once.
  Value exp(Value x) {
    Value limited = clamp(x, -746, 710);
    auto [n, rounded] = round(s_.mul(limited, constant(x, 1.44269504088896340736)));
    Value r = s_.fma(rounded, constant(x, -kLn2Low), s_.fma(rounded, constant(x, -kLn2High), limited));
    Value y = constant(x, 0);
    double factorial = 6227020800.0; // 13!, and so on down to 0!
    for (int k = 13; k >= 0; factorial /= std::max(k, 1), --k)
      y = s_.fma(y, r, constant(x, 1 / factorial));
    Value half = builder_.create<arith::ShRSIOp>(loc_, n, s_.constantInt(n, 1));
    return s_.mul(s_.mul(y, powerOfTwo(half)), powerOfTwo(s_.sub(n, half)));
  }

  // x = 2^k m with m in [sqrt(1/2), sqrt(2)): k ln 2 + 2 artanh((m - 1) / (m + 1)). Of normal numbers.
  Value log(Value x) {
    Value bits = cast(x, builder_.getI64Type()), root = s_.constantInt(bits, 0x3fe6a09e667f3bcd);
    Value fromRoot = s_.sub(bits, root), exponent = builder_.create<arith::ShRSIOp>(loc_, fromRoot, s_.constantInt(bits, 52));
    Value mantissa = s_.add(s_.bitAnd(fromRoot, s_.constantInt(bits, 0x000fffffffffffff)), root);
    Value m = cast(mantissa, builder_.getF64Type()), k = s_.convert(exponent, builder_.getF64Type());
    Value f = s_.sub(m, constant(x, 1)), s = s_.div(f, s_.add(m, constant(x, 1))), square = s_.mul(s, s);
    Value y = constant(x, 0);
    for (int degree = 25; degree >= 3; degree -= 2)
      y = s_.fma(y, square, constant(x, 2.0 / degree));
    y = s_.mul(s_.mul(s, square), y);
    y = s_.fma(k, constant(x, kLn2Low), y);
    y = s_.add(s_.mul(k, constant(x, kLn2High)), s_.fma(constant(x, 2), s, y));
    y = s_.select(s_.compare("lt", x, constant(x, kInfinity)), y, s_.add(x, x));
    y = s_.select(s_.compare("eq", x, constant(x, 0)), constant(x, -kInfinity), y);
    return s_.select(s_.compare("lt", x, constant(x, 0)), constant(x, std::numeric_limits<double>::quiet_NaN()), y);
  }

  Value pow(Value x, Value y) {
    Value power = exp(s_.mul(y, log(x)));
    return s_.select(s_.compare("eq", y, constant(x, 0)), constant(x, 1), power);
  }

  // sin(r + quarter turns) with |r| <= pi / 4.
  Value sin(Value x) { return wave(x, 0); }
  Value cos(Value x) { return wave(x, 1); }

private:
  static constexpr double kInfinity = std::numeric_limits<double>::infinity();

  Value wave(Value x, int64_t quarters) {
    auto [n, rounded] = round(s_.mul(x, constant(x, 0.636619772367581343076)));
    Value r = s_.fma(rounded, constant(x, -kHalfPiLow), s_.fma(rounded, constant(x, -kHalfPiHigh), x));
    Value square = s_.mul(r, r), sine = constant(x, 0), cosine = constant(x, 0);
    double factorial = 355687428096000.0; // 17!
    for (int degree = 17; degree >= 0; factorial /= std::max(degree, 1), --degree) {
      Value coefficient = constant(x, (degree / 2 % 2 ? -1 : 1) / factorial);
      Value &into = degree % 2 ? sine : cosine;
      into = s_.fma(into, square, coefficient);
    }
    sine = s_.mul(sine, r);
    Value turn = s_.add(n, s_.constantInt(n, quarters));
    Value isOdd = s_.compare("ne", s_.bitAnd(turn, s_.constantInt(n, 1)), s_.constantInt(n, 0));
    Value isNegative = s_.compare("ne", s_.bitAnd(turn, s_.constantInt(n, 2)), s_.constantInt(n, 0));
    Value size = s_.select(isOdd, cosine, sine);
    return s_.select(isNegative, s_.neg(size), size);
  }

  Value constant(Value like, double value) { return s_.constant(like, value); }
  Value cast(Value x, Type element) {
    return builder_.create<arith::BitcastOp>(loc_, tape::withElement(x.getType(), element), x);
  }
  /// As integer and as float; NaN does no harm.
  std::pair<Value, Value> round(Value x) {
    Value magic = constant(x, kMagic), shifted = s_.add(x, magic);
    Value n = s_.sub(cast(shifted, builder_.getI64Type()), cast(magic, builder_.getI64Type()));
    return {n, s_.sub(shifted, magic)};
  }
  Value clamp(Value x, double least, double most) { // NaN passes: it compares false
    x = s_.select(s_.compare("lt", x, constant(x, least)), constant(x, least), x);
    return s_.select(s_.compare("gt", x, constant(x, most)), constant(x, most), x);
  }
  Value powerOfTwo(Value n) { // n in the range of normal numbers
    Value bits = builder_.create<arith::ShLIOp>(loc_, s_.add(n, s_.constantInt(n, 1023)), s_.constantInt(n, 52));
    return cast(bits, builder_.getF64Type());
  }

  OpBuilder &builder_;
  Location loc_;
  tape::ScalarBuilder s_;
};

} // namespace

Value expandF64(OpBuilder &builder, Operation *op) {
  F64Math math(builder, op->getLoc());
  Value x = op->getOperand(0);
  if (isa<math::ExpOp>(op))
    return math.exp(x);
  if (isa<math::LogOp>(op))
    return math.log(x);
  if (isa<math::CosOp>(op))
    return math.cos(x);
  if (isa<math::SinOp>(op))
    return math.sin(x);
  if (isa<math::PowFOp>(op))
    return math.pow(x, op->getOperand(1));
  return {};
}

} // namespace tapeout::codegen
