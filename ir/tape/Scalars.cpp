#include "ir/tape/Scalars.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"

#include "llvm/ADT/StringSwitch.h"

using namespace mlir;

namespace tapeout::tape {

Type withElement(Type type, Type elementType) {
  if (auto vector = dyn_cast<VectorType>(type))
    return VectorType::get(vector.getShape(), elementType);
  return elementType;
}

static bool isFloat(Value value) { return isa<FloatType>(getElementTypeOrSelf(value.getType())); }

static Value materialize(OpBuilder &builder, Location loc, Type type, TypedAttr element) {
  if (auto vector = dyn_cast<VectorType>(type))
    return builder.create<arith::ConstantOp>(loc, DenseElementsAttr::get(vector, Attribute(element)));
  return builder.create<arith::ConstantOp>(loc, element);
}

Value ScalarBuilder::constant(Value like, double value) {
  Type element = getElementTypeOrSelf(like.getType());
  if (!isa<FloatType>(element))
    return constantInt(like, static_cast<int64_t>(value));
  return materialize(builder_, loc_, like.getType(), builder_.getFloatAttr(element, value));
}

Value ScalarBuilder::constantInt(Value like, int64_t value) {
  Type element = getElementTypeOrSelf(like.getType());
  return materialize(builder_, loc_, like.getType(), builder_.getIntegerAttr(element, value));
}

// One definition per op that exists for floats and for integers.
#define TAPEOUT_FLOAT_OR_INT(name, FloatOp, IntOp)                                                                     \
  Value ScalarBuilder::name(Value a, Value b) {                                                                        \
    if (isFloat(a))                                                                                                    \
      return builder_.create<arith::FloatOp>(loc_, a, b);                                                              \
    return builder_.create<arith::IntOp>(loc_, a, b);                                                                  \
  }
TAPEOUT_FLOAT_OR_INT(add, AddFOp, AddIOp)
TAPEOUT_FLOAT_OR_INT(sub, SubFOp, SubIOp)
TAPEOUT_FLOAT_OR_INT(mul, MulFOp, MulIOp)
TAPEOUT_FLOAT_OR_INT(div, DivFOp, DivSIOp)
TAPEOUT_FLOAT_OR_INT(max, MaximumFOp, MaxSIOp)
TAPEOUT_FLOAT_OR_INT(min, MinimumFOp, MinSIOp)
#undef TAPEOUT_FLOAT_OR_INT

Value ScalarBuilder::fma(Value a, Value b, Value c) { return builder_.create<math::FmaOp>(loc_, a, b, c); }
Value ScalarBuilder::neg(Value a) { return builder_.create<arith::NegFOp>(loc_, a); }
Value ScalarBuilder::exp(Value a) { return builder_.create<math::ExpOp>(loc_, a); }
Value ScalarBuilder::log(Value a) { return builder_.create<math::LogOp>(loc_, a); }
Value ScalarBuilder::sqrt(Value a) { return builder_.create<math::SqrtOp>(loc_, a); }
Value ScalarBuilder::tanh(Value a) { return builder_.create<math::TanhOp>(loc_, a); }
Value ScalarBuilder::erf(Value a) { return builder_.create<math::ErfOp>(loc_, a); }
Value ScalarBuilder::cos(Value a) { return builder_.create<math::CosOp>(loc_, a); }
Value ScalarBuilder::sin(Value a) { return builder_.create<math::SinOp>(loc_, a); }
Value ScalarBuilder::pow(Value a, Value b) { return builder_.create<math::PowFOp>(loc_, a, b); }

Value ScalarBuilder::compare(StringRef kind, Value a, Value b) {
  if (isFloat(a)) {
    auto predicate = llvm::StringSwitch<arith::CmpFPredicate>(kind)
                         .Case("eq", arith::CmpFPredicate::OEQ)
                         .Case("ne", arith::CmpFPredicate::UNE)
                         .Case("lt", arith::CmpFPredicate::OLT)
                         .Case("le", arith::CmpFPredicate::OLE)
                         .Case("gt", arith::CmpFPredicate::OGT)
                         .Default(arith::CmpFPredicate::OGE);
    return builder_.create<arith::CmpFOp>(loc_, predicate, a, b);
  }
  auto predicate = llvm::StringSwitch<arith::CmpIPredicate>(kind)
                       .Case("eq", arith::CmpIPredicate::eq)
                       .Case("ne", arith::CmpIPredicate::ne)
                       .Case("lt", arith::CmpIPredicate::slt)
                       .Case("le", arith::CmpIPredicate::sle)
                       .Case("gt", arith::CmpIPredicate::sgt)
                       .Default(arith::CmpIPredicate::sge);
  return builder_.create<arith::CmpIOp>(loc_, predicate, a, b);
}

Value ScalarBuilder::select(Value predicate, Value a, Value b) {
  return builder_.create<arith::SelectOp>(loc_, predicate, a, b);
}
Value ScalarBuilder::bitAnd(Value a, Value b) { return builder_.create<arith::AndIOp>(loc_, a, b); }
Value ScalarBuilder::bitXor(Value a, Value b) { return builder_.create<arith::XOrIOp>(loc_, a, b); }
Value ScalarBuilder::shiftRight(Value a, int64_t bits) {
  return builder_.create<arith::ShRUIOp>(loc_, a, constantInt(a, bits));
}
Value ScalarBuilder::divUnsigned(Value a, Value b) { return builder_.create<arith::DivUIOp>(loc_, a, b); }
Value ScalarBuilder::remUnsigned(Value a, Value b) { return builder_.create<arith::RemUIOp>(loc_, a, b); }

std::pair<Value, Value> ScalarBuilder::mulWide(Value a, Value b) {
  // Through the double width: every backend has a good widening multiply for it.
  Type wide = withElement(a.getType(), builder_.getI64Type());
  Value product = builder_.create<arith::MulIOp>(loc_, builder_.create<arith::ExtUIOp>(loc_, wide, a),
                                                 builder_.create<arith::ExtUIOp>(loc_, wide, b));
  Value low = builder_.create<arith::TruncIOp>(loc_, a.getType(), product);
  Value high = builder_.create<arith::TruncIOp>(loc_, a.getType(), shiftRight(product, 32));
  return {low, high};
}

Value ScalarBuilder::convert(Value a, Type elementType) {
  Type from = getElementTypeOrSelf(a.getType()), to = withElement(a.getType(), elementType);
  if (from == elementType)
    return a;
  bool fromFloat = isa<FloatType>(from), toFloat = isa<FloatType>(elementType);
  if (fromFloat && toFloat) {
    // bf16 and f16 are reached through f32 only, which every target can round.
    bool direct = from.isF32() || elementType.isF32();
    if (!direct)
      return convert(convert(a, builder_.getF32Type()), elementType);
    if (from.getIntOrFloatBitWidth() < elementType.getIntOrFloatBitWidth())
      return builder_.create<arith::ExtFOp>(loc_, to, a);
    return builder_.create<arith::TruncFOp>(loc_, to, a);
  }
  if (fromFloat)
    return builder_.create<arith::FPToSIOp>(loc_, to, a);
  if (toFloat) {
    if (from.isInteger(1))
      return builder_.create<arith::UIToFPOp>(loc_, to, a);
    return builder_.create<arith::SIToFPOp>(loc_, to, a);
  }
  if (from.getIntOrFloatBitWidth() > elementType.getIntOrFloatBitWidth())
    return builder_.create<arith::TruncIOp>(loc_, to, a);
  if (from.isInteger(1))
    return builder_.create<arith::ExtUIOp>(loc_, to, a);
  return builder_.create<arith::ExtSIOp>(loc_, to, a);
}

void buildElement(ScalarBodyOpInterface op, OpBuilder &builder, Location loc, ValueRange arguments, Value index,
                  SmallVectorImpl<Value> &results) {
  op.buildScalarBody(builder, loc, arguments, index, results);
  ScalarBuilder s(builder, loc);
  for (auto [result, value] : llvm::zip_equal(op->getResults(), results))
    value = s.convert(s.convert(value, elementOf(result)), computeType(elementOf(result)));
}

} // namespace tapeout::tape
