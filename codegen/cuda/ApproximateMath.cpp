#include "codegen/cuda/ApproximateMath.h"

#include "ir/tape/Scalars.h"
#include "ir/tape/Tape.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"

using namespace mlir;

namespace tapeout::codegen {
namespace {

constexpr double kLog2E = 1.44269504088896341;

class Approximation {
public:
  Approximation(OpBuilder &builder, Location loc) : builder_(builder), loc_(loc), s_(builder, loc) {}

  Value exp(Value x) { return perLane("llvm.nvvm.ex2.approx.ftz.f", {s_.mul(x, s_.constant(x, kLog2E))}); }
  Value divide(Value a, Value b) { return perLane("llvm.nvvm.div.approx.ftz.f", {a, b}); }

  // The series up to x^7 near 0, where 1 - 2 / (e^2x + 1) loses digits.
  Value tanh(Value x) {
    Value one = s_.constant(x, 1), power = exp(s_.add(x, x));
    Value far = s_.sub(one, divide(s_.constant(x, 2), s_.add(power, one)));
    Value square = s_.mul(x, x), near = s_.constant(x, -17.0 / 315);
    for (double coefficient : {2.0 / 15, -1.0 / 3, 1.0})
      near = s_.fma(near, square, s_.constant(x, coefficient));
    return s_.select(s_.compare("lt", square, s_.constant(x, 1.0 / 16)), s_.mul(x, near), far);
  }

  // 1 - 2^-(x P(x)) up to 4, where erf is 1 but for 1.5e-8: P is fitted, the result is off by 3e-7 at most.
  Value erf(Value x) {
    Value isNegative = s_.compare("lt", x, s_.constant(x, 0));
    Value size = s_.min(s_.select(isNegative, s_.neg(x), x), s_.constant(x, 4));
    Value exponent = s_.constant(x, -0.0001420407972);
    for (double coefficient : {0.003664267878, -0.03089616719, 0.1496994159, 0.9181654753, 1.62792507})
      exponent = s_.fma(exponent, size, s_.constant(x, coefficient));
    Value power = perLane("llvm.nvvm.ex2.approx.ftz.f", {s_.neg(s_.mul(exponent, size))});
    Value value = s_.sub(s_.constant(x, 1), power);
    return s_.select(isNegative, s_.neg(value), value);
  }

private:
  Value perLane(StringRef intrinsic, ValueRange operands) {
    auto vector = cast<VectorType>(operands.front().getType());
    Value result = builder_.create<LLVM::PoisonOp>(loc_, vector);
    for (int64_t lane = 0; lane < vector.getNumElements(); ++lane) {
      Value place = builder_.create<LLVM::ConstantOp>(loc_, builder_.getI32IntegerAttr(lane));
      SmallVector<Value> elements;
      for (Value operand : operands)
        elements.push_back(builder_.create<LLVM::ExtractElementOp>(loc_, operand, place));
      auto call = builder_.create<LLVM::CallIntrinsicOp>(loc_, TypeRange(vector.getElementType()),
                                                         builder_.getStringAttr(intrinsic), elements);
      result = builder_.create<LLVM::InsertElementOp>(loc_, result, call.getResult(0), place);
    }
    return result;
  }

  OpBuilder &builder_;
  Location loc_;
  tape::ScalarBuilder s_;
};

} // namespace

bool mayApproximate(plan::KernelOp kernel) {
  ValueRange results = kernel.getBody().front().getTerminator()->getOperands();
  uint64_t most = 0;
  for (Value result : results)
    most = std::max(most, tape::elementCount(result.getType()));
  return llvm::all_of(results, [&](Value result) {
    return tape::elementCount(result.getType()) < most || tape::isLowPrecision(tape::elementOf(result));
  });
}

void approximateMath(Operation *function) {
  SmallVector<Operation *> ops;
  function->walk([&](Operation *op) {
    if (!isa<math::ExpOp, math::TanhOp, math::ErfOp, arith::DivFOp>(op))
      return;
    auto type = dyn_cast<VectorType>(op->getResult(0).getType());
    if (type && type.getElementType().isF32())
      ops.push_back(op);
  });
  for (Operation *op : ops) {
    OpBuilder builder(op);
    Approximation approximate(builder, op->getLoc());
    Value x = op->getOperand(0);
    Value value = isa<math::ExpOp>(op)    ? approximate.exp(x)
                  : isa<math::TanhOp>(op) ? approximate.tanh(x)
                  : isa<math::ErfOp>(op)  ? approximate.erf(x)
                                          : approximate.divide(x, op->getOperand(1));
    op->replaceAllUsesWith(ValueRange(value));
    op->erase();
  }
  if (ops.empty())
    return;
  // Where results are approximate, a product need not be rounded before something is added to it.
  auto contract = arith::FastMathFlagsAttr::get(function->getContext(), arith::FastMathFlags::contract);
  function->walk([&](Operation *op) {
    auto type = op->getNumResults() == 1 ? dyn_cast<VectorType>(op->getResult(0).getType()) : VectorType();
    if (isa<arith::AddFOp, arith::SubFOp, arith::MulFOp>(op) && type && type.getElementType().isF32())
      op->setAttr("fastmath", contract);
  });
}

} // namespace tapeout::codegen
