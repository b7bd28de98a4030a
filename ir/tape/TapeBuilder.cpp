#include "ir/tape/TapeBuilder.h"

#include "ir/tape/Elementwise.h"
#include "ir/tape/MatMul.h"
#include "ir/tape/Reduction.h"
#include "ir/tape/Shape.h"

#include "llvm/ADT/STLExtras.h"

using namespace mlir;

namespace tapeout::tape {

Value TapeBuilder::constant(Type elementType, double value) {
  return builder_.create<ConstantOp>(loc_, builder_.getF64FloatAttr(value), TypeAttr::get(elementType));
}
Value TapeBuilder::constantLike(Value like, double value) { return constant(elementOf(like), value); }
Value TapeBuilder::iota(Ints shape, int64_t dimension) { return builder_.create<IotaOp>(loc_, shape, dimension); }

Value TapeBuilder::add(Value a, Value b) { return builder_.create<AddOp>(loc_, a, b); }
Value TapeBuilder::sub(Value a, Value b) { return builder_.create<SubtractOp>(loc_, a, b); }
Value TapeBuilder::mul(Value a, Value b) { return builder_.create<MultiplyOp>(loc_, a, b); }
Value TapeBuilder::div(Value a, Value b) { return builder_.create<DivideOp>(loc_, a, b); }
Value TapeBuilder::neg(Value a) { return builder_.create<NegateOp>(loc_, a); }
Value TapeBuilder::maximum(Value a, Value b) { return builder_.create<MaximumOp>(loc_, a, b); }
Value TapeBuilder::exp(Value a) { return builder_.create<ExpOp>(loc_, a); }
Value TapeBuilder::log(Value a) { return builder_.create<LogOp>(loc_, a); }
Value TapeBuilder::sqrt(Value a) { return builder_.create<SqrtOp>(loc_, a); }
Value TapeBuilder::rsqrt(Value a) { return builder_.create<RsqrtOp>(loc_, a); }
Value TapeBuilder::compare(llvm::StringRef kind, Value a, Value b) {
  return builder_.create<CompareOp>(loc_, a, b, builder_.getStringAttr(kind));
}
Value TapeBuilder::select(Value predicate, Value a, Value b) { return builder_.create<SelectOp>(loc_, predicate, a, b); }
Value TapeBuilder::convert(Value a, Type elementType) {
  if (elementOf(a) == elementType)
    return a;
  return builder_.create<ConvertOp>(loc_, a, TypeAttr::get(elementType));
}

Value TapeBuilder::reshape(Value a, Ints shape) {
  if (shapeOf(a) == shape)
    return a;
  return builder_.create<ReshapeOp>(loc_, a, shape);
}
Value TapeBuilder::transpose(Value a, Ints permutation) {
  if (llvm::is_sorted(permutation))
    return a;
  return builder_.create<TransposeOp>(loc_, a, permutation);
}
Value TapeBuilder::broadcast(Value a, Ints shape, Ints dimensions) {
  return builder_.create<BroadcastInDimOp>(loc_, a, shape, dimensions);
}
Value TapeBuilder::slice(Value a, Ints starts, Ints limits) { return builder_.create<SliceOp>(loc_, a, starts, limits); }
Value TapeBuilder::broadcastRows(Value a, Value like) {
  return broadcast(a, shapeOf(like), llvm::to_vector(llvm::seq<int64_t>(0, rankOf(a))));
}
Value TapeBuilder::broadcastLast(Value a, Value like) { return broadcast(a, shapeOf(like), {rankOf(like) - 1}); }

Value TapeBuilder::reduce(llvm::StringRef kind, Value a, Ints dimensions) {
  if (dimensions.empty())
    return a;
  return builder_.create<ReduceOp>(loc_, a, builder_.getStringAttr(kind), builder_.getDenseI64ArrayAttr(dimensions));
}
Value TapeBuilder::reduceLast(llvm::StringRef kind, Value a) { return reduce(kind, a, {rankOf(a) - 1}); }
Value TapeBuilder::reduceAll(llvm::StringRef kind, Value a) {
  return reduce(kind, a, llvm::to_vector(llvm::seq<int64_t>(0, rankOf(a))));
}

Value TapeBuilder::dot(Value lhs, Value rhs, Ints lhsBatch, Ints rhsBatch, Ints lhsContract, Ints rhsContract,
                       Type elementType, StringRef triangle, Value addend) {
  bool named = elementType && elementType != elementOf(lhs);
  return builder_.create<DotGeneralOp>(loc_, lhs, rhs, addend, lhsBatch, rhsBatch, lhsContract, rhsContract,
                                       named ? TypeAttr::get(elementType) : TypeAttr(),
                                       triangle.empty() ? StringAttr() : builder_.getStringAttr(triangle));
}

Value TapeBuilder::sumTo(Value gradient, Value operand) {
  if (rankOf(operand) == 0 && rankOf(gradient) != 0)
    return reduceAll("sum", gradient);
  return gradient;
}

} // namespace tapeout::tape
