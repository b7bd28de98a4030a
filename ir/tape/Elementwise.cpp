#include "ir/tape/Elementwise.h"

#include "ir/tape/Scalars.h"
#include "ir/tape/TapeBuilder.h"

#include <cmath>

#define GET_OP_CLASSES
#include "ir/tape/Elementwise.cpp.inc"

using namespace mlir;

namespace tapeout::tape {

void registerElementwiseOps(TapeDialect &dialect) {
  addOps<
#define GET_OP_LIST
#include "ir/tape/Elementwise.cpp.inc"
      >(dialect);
}

namespace {
using Results = SmallVectorImpl<Value>;
constexpr double kSqrt2OverPi = 0.79788456080286535588;
constexpr double kGeluCubic = 0.044715;

// (1 + tanh u) / 2 = 1 / (1 + e^-2u) with u = sqrt(2/pi) (x + 0.044715 x^3): one exponential, and nothing cancels.
Value geluGate(ScalarBuilder &s, Value x) {
  Value cubic = s.mul(s.constant(x, -2 * kSqrt2OverPi * kGeluCubic), s.mul(x, x));
  Value power = s.exp(s.mul(x, s.add(s.constant(x, -2 * kSqrt2OverPi), cubic)));
  Value one = s.constant(x, 1);
  return s.div(one, s.add(one, power));
}
} // namespace

//===- Arithmetic ---------------------------------------------------------------------------------------------------===//

void AddOp::buildScalarBody(OpBuilder &b, Location loc, ValueRange args, Value, Results &results) {
  results.push_back(ScalarBuilder(b, loc).add(args[0], args[1]));
}
void AddOp::buildGradient(OpBuilder &b, ArrayRef<Value> dy, Results &gradients) {
  TapeBuilder t(b, getLoc());
  gradients.assign({t.sumTo(dy[0], getLhs()), t.sumTo(dy[0], getRhs())});
}

void SubtractOp::buildScalarBody(OpBuilder &b, Location loc, ValueRange args, Value, Results &results) {
  results.push_back(ScalarBuilder(b, loc).sub(args[0], args[1]));
}
void SubtractOp::buildGradient(OpBuilder &b, ArrayRef<Value> dy, Results &gradients) {
  TapeBuilder t(b, getLoc());
  gradients.assign({t.sumTo(dy[0], getLhs()), t.sumTo(t.neg(dy[0]), getRhs())});
}

void MultiplyOp::buildScalarBody(OpBuilder &b, Location loc, ValueRange args, Value, Results &results) {
  results.push_back(ScalarBuilder(b, loc).mul(args[0], args[1]));
}
void MultiplyOp::buildGradient(OpBuilder &b, ArrayRef<Value> dy, Results &gradients) {
  TapeBuilder t(b, getLoc());
  gradients.assign({t.sumTo(t.mul(dy[0], getRhs()), getLhs()), t.sumTo(t.mul(dy[0], getLhs()), getRhs())});
}

void DivideOp::buildScalarBody(OpBuilder &b, Location loc, ValueRange args, Value, Results &results) {
  results.push_back(ScalarBuilder(b, loc).div(args[0], args[1]));
}
void DivideOp::buildGradient(OpBuilder &b, ArrayRef<Value> dy, Results &gradients) {
  TapeBuilder t(b, getLoc());
  Value lhs = t.div(dy[0], getRhs());
  gradients.assign({t.sumTo(lhs, getLhs()), t.sumTo(t.neg(t.mul(lhs, getResult())), getRhs())});
}

void MaximumOp::buildScalarBody(OpBuilder &b, Location loc, ValueRange args, Value, Results &results) {
  results.push_back(ScalarBuilder(b, loc).max(args[0], args[1]));
}
void MaximumOp::buildGradient(OpBuilder &b, ArrayRef<Value> dy, Results &gradients) {
  TapeBuilder t(b, getLoc());
  Value fromLhs = t.compare("ge", getLhs(), getRhs()), zero = t.constantLike(dy[0], 0);
  gradients.assign({t.sumTo(t.select(fromLhs, dy[0], zero), getLhs()), t.sumTo(t.select(fromLhs, zero, dy[0]), getRhs())});
}

//===- Functions of one variable --------------------------------------------------------------------------------------===//

void NegateOp::buildScalarBody(OpBuilder &b, Location loc, ValueRange args, Value, Results &results) {
  results.push_back(ScalarBuilder(b, loc).neg(args[0]));
}
void NegateOp::buildGradient(OpBuilder &b, ArrayRef<Value> dy, Results &gradients) {
  gradients.push_back(TapeBuilder(b, getLoc()).neg(dy[0]));
}

void ExpOp::buildScalarBody(OpBuilder &b, Location loc, ValueRange args, Value, Results &results) {
  results.push_back(ScalarBuilder(b, loc).exp(args[0]));
}
void ExpOp::buildGradient(OpBuilder &b, ArrayRef<Value> dy, Results &gradients) {
  gradients.push_back(TapeBuilder(b, getLoc()).mul(dy[0], getResult()));
}

void LogOp::buildScalarBody(OpBuilder &b, Location loc, ValueRange args, Value, Results &results) {
  results.push_back(ScalarBuilder(b, loc).log(args[0]));
}
void LogOp::buildGradient(OpBuilder &b, ArrayRef<Value> dy, Results &gradients) {
  gradients.push_back(TapeBuilder(b, getLoc()).div(dy[0], getOperand()));
}

void SqrtOp::buildScalarBody(OpBuilder &b, Location loc, ValueRange args, Value, Results &results) {
  results.push_back(ScalarBuilder(b, loc).sqrt(args[0]));
}
void SqrtOp::buildGradient(OpBuilder &b, ArrayRef<Value> dy, Results &gradients) {
  TapeBuilder t(b, getLoc());
  gradients.push_back(t.div(t.mul(dy[0], 0.5), getResult()));
}

void RsqrtOp::buildScalarBody(OpBuilder &b, Location loc, ValueRange args, Value, Results &results) {
  ScalarBuilder s(b, loc); // a division, not an approximation: the same bits on every target
  results.push_back(s.div(s.constant(args[0], 1), s.sqrt(args[0])));
}
void RsqrtOp::buildGradient(OpBuilder &b, ArrayRef<Value> dy, Results &gradients) {
  TapeBuilder t(b, getLoc());
  Value y = getResult(), cube = t.mul(t.mul(y, y), y);
  gradients.push_back(t.mul(t.mul(dy[0], -0.5), cube));
}

void TanhOp::buildScalarBody(OpBuilder &b, Location loc, ValueRange args, Value, Results &results) {
  results.push_back(ScalarBuilder(b, loc).tanh(args[0]));
}
void TanhOp::buildGradient(OpBuilder &b, ArrayRef<Value> dy, Results &gradients) {
  TapeBuilder t(b, getLoc());
  Value y = getResult();
  gradients.push_back(t.mul(dy[0], t.sub(t.constantLike(y, 1), t.mul(y, y))));
}

void LogisticOp::buildScalarBody(OpBuilder &b, Location loc, ValueRange args, Value, Results &results) {
  ScalarBuilder s(b, loc);
  Value one = s.constant(args[0], 1);
  results.push_back(s.div(one, s.add(one, s.exp(s.neg(args[0])))));
}
void LogisticOp::buildGradient(OpBuilder &b, ArrayRef<Value> dy, Results &gradients) {
  TapeBuilder t(b, getLoc());
  Value y = getResult();
  gradients.push_back(t.mul(dy[0], t.mul(y, t.sub(t.constantLike(y, 1), y))));
}

// max(x, 0) + log1p(e^-|x|): nothing overflows. log1p by Kahan's correction of log(1 + e) keeps small values.
void SoftplusOp::buildScalarBody(OpBuilder &b, Location loc, ValueRange args, Value, Results &results) {
  ScalarBuilder s(b, loc);
  Value x = args[0], zero = s.constant(x, 0), one = s.constant(x, 1);
  Value e = s.exp(s.neg(s.max(x, s.neg(x)))), sum = s.add(one, e);
  Value corrected = s.mul(s.log(sum), s.div(e, s.sub(sum, one)));
  Value log1p = s.select(s.compare("eq", sum, one), e, corrected);
  results.push_back(s.add(s.max(x, zero), log1p));
}
void SoftplusOp::buildGradient(OpBuilder &b, ArrayRef<Value> dy, Results &gradients) {
  Value slope = b.create<LogisticOp>(getLoc(), getOperand());
  gradients.push_back(TapeBuilder(b, getLoc()).mul(dy[0], slope));
}

void ReluOp::buildScalarBody(OpBuilder &b, Location loc, ValueRange args, Value, Results &results) {
  ScalarBuilder s(b, loc);
  results.push_back(s.max(args[0], s.constant(args[0], 0)));
}
void ReluOp::buildGradient(OpBuilder &b, ArrayRef<Value> dy, Results &gradients) {
  TapeBuilder t(b, getLoc());
  Value zero = t.constantLike(dy[0], 0);
  gradients.push_back(t.select(t.compare("gt", getResult(), zero), dy[0], zero));
}

void SiluOp::buildScalarBody(OpBuilder &b, Location loc, ValueRange args, Value, Results &results) {
  ScalarBuilder s(b, loc);
  results.push_back(s.div(args[0], s.add(s.constant(args[0], 1), s.exp(s.neg(args[0])))));
}
void SiluOp::buildGradient(OpBuilder &b, ArrayRef<Value> dy, Results &gradients) {
  gradients.push_back(b.create<SiluGradOp>(getLoc(), getOperand(), dy[0]));
}

// With s = 1 / (1 + e^-x): s + x s (1 - s).
void SiluGradOp::buildScalarBody(OpBuilder &b, Location loc, ValueRange args, Value, Results &results) {
  ScalarBuilder s(b, loc);
  Value x = args[0], one = s.constant(x, 1), gate = s.div(one, s.add(one, s.exp(s.neg(x))));
  Value slope = s.mul(gate, s.add(one, s.mul(x, s.sub(one, gate))));
  results.push_back(s.mul(args[1], slope));
}

//===- GELU -----------------------------------------------------------------------------------------------------------===//

void GeluOp::buildScalarBody(OpBuilder &b, Location loc, ValueRange args, Value, Results &results) {
  ScalarBuilder s(b, loc);
  Value x = args[0];
  if (getApproximate() == "tanh") {
    results.push_back(s.mul(x, geluGate(s, x)));
    return;
  }
  Value inner = s.erf(s.mul(x, s.constant(x, M_SQRT1_2)));
  results.push_back(s.mul(s.mul(x, s.constant(x, 0.5)), s.add(s.constant(x, 1), inner)));
}
void GeluOp::buildGradient(OpBuilder &b, ArrayRef<Value> dy, Results &gradients) {
  gradients.push_back(b.create<GeluGradOp>(getLoc(), getOperand(), dy[0], getApproximateAttr()));
}

void GeluGradOp::buildScalarBody(OpBuilder &b, Location loc, ValueRange args, Value, Results &results) {
  ScalarBuilder s(b, loc);
  Value x = args[0], one = s.constant(x, 1), half = s.constant(x, 0.5), square = s.mul(x, x), slope;
  if (getApproximate() == "tanh") {
    Value gate = geluGate(s, x); // its slope is 2 gate (1 - gate) du/dx
    Value inner = s.add(s.constant(x, 2 * kSqrt2OverPi), s.mul(s.constant(x, 6 * kSqrt2OverPi * kGeluCubic), square));
    slope = s.add(gate, s.mul(s.mul(x, gate), s.mul(s.sub(one, gate), inner)));
  } else {
    Value cdf = s.mul(half, s.add(one, s.erf(s.mul(x, s.constant(x, M_SQRT1_2)))));
    Value pdf = s.mul(s.constant(x, 0.5 * M_SQRT1_2 * M_2_SQRTPI), s.exp(s.mul(s.constant(x, -0.5), square)));
    slope = s.add(cdf, s.mul(x, pdf));
  }
  results.push_back(s.mul(args[1], slope));
}

//===- Comparison, selection, conversion --------------------------------------------------------------------------------===//

LogicalResult CompareOp::inferReturnTypes(MLIRContext *context, std::optional<Location> loc, Adaptor adaptor,
                                          SmallVectorImpl<Type> &types) {
  return detail::inferElementwise(loc, adaptor.getOperands(), IntegerType::get(context, 1), types.emplace_back());
}
void CompareOp::buildScalarBody(OpBuilder &b, Location loc, ValueRange args, Value, Results &results) {
  results.push_back(ScalarBuilder(b, loc).compare(getKind(), args[0], args[1]));
}

LogicalResult SelectOp::inferReturnTypes(MLIRContext *, std::optional<Location> loc, Adaptor adaptor,
                                         SmallVectorImpl<Type> &types) {
  ValueRange values = adaptor.getOperands().drop_front();
  return detail::inferElementwise(loc, adaptor.getOperands(), elementOf(detail::leadingOperand(values)), types.emplace_back());
}
void SelectOp::buildScalarBody(OpBuilder &b, Location loc, ValueRange args, Value, Results &results) {
  results.push_back(ScalarBuilder(b, loc).select(args[0], args[1], args[2]));
}
void SelectOp::buildGradient(OpBuilder &b, ArrayRef<Value> dy, Results &gradients) {
  TapeBuilder t(b, getLoc());
  Value zero = t.constantLike(dy[0], 0);
  gradients.assign({Value(), t.sumTo(t.select(getPredicate(), dy[0], zero), getOnTrue()),
                    t.sumTo(t.select(getPredicate(), zero, dy[0]), getOnFalse())});
}

LogicalResult ConvertOp::inferReturnTypes(MLIRContext *, std::optional<Location> loc, Adaptor adaptor,
                                          SmallVectorImpl<Type> &types) {
  return detail::inferElementwise(loc, adaptor.getOperands(), adaptor.getElementType(), types.emplace_back());
}
void ConvertOp::buildScalarBody(OpBuilder &b, Location loc, ValueRange args, Value, Results &results) {
  results.push_back(ScalarBuilder(b, loc).convert(args[0], getElementType()));
}
void ConvertOp::buildGradient(OpBuilder &b, ArrayRef<Value> dy, Results &gradients) {
  bool isFloat = isa<FloatType>(elementOf(getOperand())) && isa<FloatType>(elementOf(getResult()));
  gradients.push_back(isFloat ? TapeBuilder(b, getLoc()).convert(dy[0], elementOf(getOperand())) : Value());
}
OpFoldResult ConvertOp::fold(FoldAdaptor) {
  return elementOf(getOperand()) == getElementType() ? OpFoldResult(getOperand()) : OpFoldResult();
}

// Between floats it is linear, up to rounding.
void ConvertOp::getPlacementRules(PlacementRules &rules) {
  detail::addElementwisePlacements(*this, {}, rules);
  if (isa<FloatType>(elementOf(getOperand())) && isa<FloatType>(getElementType()))
    addUniformRule(*this, kPartialSum, rules);
}

} // namespace tapeout::tape
