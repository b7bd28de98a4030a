#include "codegen/kernel/MathExpansion.h"

#include "codegen/kernel/F64Math.h"
#include "ir/tape/Scalars.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/IR/BuiltinOps.h"
#include "llvm/ADT/StringSwitch.h"

#include <limits>

using namespace mlir;

namespace tapeout::codegen {
namespace {

// Minimax polynomials, lowest degree first, fitted for the relative error of the whole function.
constexpr double kExp[] = {0.4999999305, 0.1666651479, 0.04166845682, 0.008369418802, 0.001381314226};
constexpr double kLog[] = {0.3333331673, -0.2500081039, 0.200022862,  -0.1662455438,
                           0.1418119378, -0.1312875374, 0.1288163474, -0.07859598301};
constexpr double kTanh[] = {-0.3333333091, 0.1333320977, -0.05394720464, 0.02170296893, -0.008182678031, 0.00214754043};
constexpr double kErfNear[] = {0.1283791666,   -0.376126332,     0.1128368635,  -0.02685885124,
                               0.005199599911, -0.0008125807222, 8.296612903e-5};
constexpr double kErfFar[] = {0.1285143603,   0.6357183174,  0.1052618403,
                              -0.02288996243, 0.00321495505, -0.0002139848812};

class F32Math {
public:
  F32Math(OpBuilder &builder, Location loc) : builder_(builder), loc_(loc), s_(builder, loc) {}

  // 2^n e^r with n = round(x / ln 2). Two steps of scaling, so that denormal results round once. Masked scores are
  // -infinity: an underflow for each of them would cost the processor over a hundred cycles.
  Value exp(Value x) {
    Value vanishes = s_.compare("lt", x, constant(x, -104)), zero = constant(x, 0);
    x = clampAbove(s_.select(vanishes, zero, x), 89); // above, the result is infinite already
    auto [n, y] = splitExp(x);
    Value half = shift(n, 1, /*arithmetic=*/true);
    return s_.select(vanishes, zero, s_.mul(s_.mul(y, powerOfTwo(half)), powerOfTwo(s_.sub(n, half))));
  }

  // x = 2^k (1 + f) with 1 + f in [sqrt(1/2), sqrt(2)): k ln 2 + f - f^2/2 + f^3 P(f).
  Value log(Value x) {
    Value tiny = s_.compare("lt", x, constant(x, std::numeric_limits<float>::min()));
    Value normal = s_.select(tiny, s_.mul(x, constant(x, 8388608.0)), x); // 2^23
    Value bits = asInteger(normal);
    Value fromRoot = s_.sub(bits, s_.constantInt(bits, kSqrtHalfBits));
    Value exponent = shift(fromRoot, 23, /*arithmetic=*/true);
    Value mantissa = s_.add(s_.bitAnd(fromRoot, s_.constantInt(bits, 0x007fffff)), s_.constantInt(bits, kSqrtHalfBits));
    Value k = s_.convert(exponent, builder_.getF32Type());
    k = s_.select(tiny, s_.sub(k, constant(k, 23)), k);
    Value f = s_.sub(asFloat(mantissa), constant(x, 1)), square = s_.mul(f, f);
    Value y = s_.mul(s_.mul(f, square), polynomial(f, kLog));
    y = s_.fma(k, constant(x, kLn2Low), y);
    y = s_.fma(square, constant(x, -0.5), y);
    y = s_.fma(k, constant(x, kLn2High), s_.add(f, y));
    // Infinity and NaN are themselves; then zero and negative numbers.
    y = s_.select(s_.compare("lt", x, constant(x, kInfinity)), y, s_.add(x, x));
    y = s_.select(s_.compare("eq", x, constant(x, 0)), constant(x, -kInfinity), y);
    return s_.select(s_.compare("lt", x, constant(x, 0)), constant(x, std::numeric_limits<double>::quiet_NaN()), y);
  }

  // x + x^3 P(x^2) near 0, else 1 - 2 / (e^2x + 1).
  Value tanh(Value x) {
    Value square = s_.mul(x, x), near = s_.fma(s_.mul(x, square), polynomial(square, kTanh), x);
    Value size = absolute(x), limited = clampAbove(size, 10);
    auto [n, y] = splitExp(s_.add(limited, limited));
    Value one = constant(x, 1), denominator = s_.add(s_.mul(y, powerOfTwo(n)), one);
    Value far = withSign(s_.sub(one, s_.div(constant(x, 2), denominator)), x);
    return s_.select(s_.compare("lt", size, constant(x, kTanhNear)), near, far);
  }

  // x + x P(x^2) near 0, else 1 - exp(-(x + x Q(x))).
  Value erf(Value x) {
    Value square = s_.mul(x, x), near = s_.fma(x, polynomial(square, kErfNear), x);
    Value size = absolute(x), limited = clampAbove(size, 4);
    auto [n, y] = splitExp(s_.neg(s_.fma(limited, polynomial(limited, kErfFar), limited)));
    Value far = withSign(s_.sub(constant(x, 1), s_.mul(y, powerOfTwo(n))), x);
    return s_.select(s_.compare("lt", size, constant(x, kErfBorder)), near, far);
  }

private:
  static constexpr double kInfinity = std::numeric_limits<double>::infinity();
  static constexpr int32_t kSqrtHalfBits = 0x3f3504f3;
  static constexpr double kLn2High = 0.693359375, kLn2Low = -2.12194440054690582e-4; // high: times n is exact
  static constexpr double kTanhNear = 0.625, kErfBorder = 0.9375;

  Value constant(Value like, double value) { return s_.constant(like, value); }
  // NaN passes: it compares false.
  Value clampAbove(Value x, double bound) {
    return s_.select(s_.compare("gt", x, constant(x, bound)), constant(x, bound), x);
  }
  Value cast(Value x, Type element) {
    return builder_.create<arith::BitcastOp>(loc_, tape::withElement(x.getType(), element), x);
  }
  Value asInteger(Value x) { return cast(x, builder_.getI32Type()); }
  Value asFloat(Value x) { return cast(x, builder_.getF32Type()); }
  Value shift(Value x, int64_t bits, bool arithmetic) {
    if (arithmetic)
      return builder_.create<arith::ShRSIOp>(loc_, x, s_.constantInt(x, bits));
    return builder_.create<arith::ShLIOp>(loc_, x, s_.constantInt(x, bits));
  }
  Value powerOfTwo(Value n) { // n in the range of normal numbers
    return asFloat(shift(s_.add(n, s_.constantInt(n, 127)), 23, /*arithmetic=*/false));
  }
  Value absolute(Value x) { return asFloat(s_.bitAnd(asInteger(x), s_.constantInt(asInteger(x), 0x7fffffff))); }
  Value withSign(Value size, Value sign) {
    Value bit = s_.bitAnd(asInteger(sign), s_.constantInt(asInteger(sign), int32_t(0x80000000)));
    return asFloat(s_.bitXor(asInteger(size), bit));
  }

  template <size_t N> Value polynomial(Value x, const double (&coefficients)[N]) {
    Value sum = constant(x, coefficients[N - 1]);
    for (size_t i = N - 1; i-- > 0;)
      sum = s_.fma(sum, x, constant(x, coefficients[i]));
    return sum;
  }

  // n and e^r of e^x = 2^n e^r, |r| <= ln(2) / 2. Adding 1.5 * 2^23 rounds n: no conversion, so NaN does no harm.
  std::pair<Value, Value> splitExp(Value x) {
    Value magic = constant(x, 12582912.0), shifted = s_.fma(x, constant(x, 1.44269504088896341), magic);
    Value n = s_.sub(asInteger(shifted), asInteger(magic)), rounded = s_.sub(shifted, magic);
    Value r = s_.fma(rounded, constant(x, -kLn2Low), s_.fma(rounded, constant(x, -kLn2High), x));
    Value square = s_.mul(r, r);
    return {n, s_.add(s_.fma(square, polynomial(r, kExp), r), constant(x, 1))};
  }

  OpBuilder &builder_;
  Location loc_;
  tape::ScalarBuilder s_;
};

Value expandF32(OpBuilder &builder, Operation *op) {
  F32Math math(builder, op->getLoc());
  Value x = op->getOperand(0);
  if (isa<math::ExpOp>(op))
    return math.exp(x);
  if (isa<math::LogOp>(op))
    return math.log(x);
  if (isa<math::TanhOp>(op))
    return math.tanh(x);
  if (isa<math::ErfOp>(op))
    return math.erf(x);
  return {};
}

// double name(double...) of the C library, for each element of a vector.
Value callLibrary(OpBuilder &builder, Operation *op, StringRef name) {
  auto module = op->getParentOfType<ModuleOp>();
  auto function = module.lookupSymbol<LLVM::LLVMFuncOp>(name);
  Type f64 = builder.getF64Type();
  if (!function) {
    SmallVector<Type> arguments(op->getNumOperands(), f64);
    OpBuilder outside = OpBuilder::atBlockBegin(module.getBody());
    function = outside.create<LLVM::LLVMFuncOp>(module.getLoc(), name, LLVM::LLVMFunctionType::get(f64, arguments));
  }
  auto vector = dyn_cast<VectorType>(op->getResult(0).getType());
  if (!vector)
    return builder.create<LLVM::CallOp>(op->getLoc(), function, op->getOperands()).getResult();
  Value result = builder.create<LLVM::UndefOp>(op->getLoc(), vector);
  for (int64_t lane = 0; lane < vector.getNumElements(); ++lane) {
    Value position = builder.create<LLVM::ConstantOp>(op->getLoc(), builder.getI64IntegerAttr(lane));
    SmallVector<Value> elements;
    for (Value operand : op->getOperands())
      elements.push_back(builder.create<LLVM::ExtractElementOp>(op->getLoc(), operand, position));
    Value element = builder.create<LLVM::CallOp>(op->getLoc(), function, elements).getResult();
    result = builder.create<LLVM::InsertElementOp>(op->getLoc(), result, element, position);
  }
  return result;
}

} // namespace

LogicalResult expandMath(Operation *function, F64Functions f64) {
  SmallVector<Operation *> ops;
  function->walk([&](Operation *op) {
    if (isa_and_nonnull<math::MathDialect>(op->getDialect()) && !isa<math::FmaOp, math::SqrtOp>(op))
      ops.push_back(op);
  });
  for (Operation *op : ops) {
    OpBuilder builder(op);
    Type type = op->getResult(0).getType();
    StringRef libraryName = llvm::StringSwitch<StringRef>(op->getName().stripDialect())
                                .Cases("exp", "log", "tanh", "erf", "cos", "sin", op->getName().stripDialect())
                                .Case("powf", "pow")
                                .Default("");
    Value value;
    if (getElementTypeOrSelf(type).isF32())
      value = expandF32(builder, op);
    else if (getElementTypeOrSelf(type).isF64() && f64 == F64Functions::Expanded)
      value = expandF64(builder, op);
    else if (getElementTypeOrSelf(type).isF64() && !libraryName.empty())
      value = callLibrary(builder, op, libraryName);
    if (!value)
      return op->emitError("has no form for ") << type << " in a kernel";
    op->getResult(0).replaceAllUsesWith(value);
    op->erase();
  }
  return success();
}

} // namespace tapeout::codegen
