// Kernels over many tensors of different sizes in one launch: a constant table says for each unit which tensor it works
// on and where.
#include "codegen/cpu/Schedules.h"
#include "codegen/kernel/MultiTensorPlan.h"
#include "ir/tape/Reduction.h"

using namespace mlir;

namespace tapeout::codegen {
namespace {

constexpr int64_t kPart = tape::SumOfSquaresPartsOp::kPart;
constexpr unsigned kLanes = 16, kAccumulators = 4;

/// The elements that one unit computes.
struct Part {
  Value tensor, begin, end;
};

/// Units of at most kPart elements, tensor after tensor.
class Parts {
public:
  Parts(KernelBuilder &kernel, ArrayRef<int64_t> sizes) : kernel_(kernel) {
    SmallVector<int64_t> tensors, begins, ends;
    for (auto [tensor, size] : llvm::enumerate(sizes))
      for (int64_t begin = 0; begin < size; begin += kPart) {
        tensors.push_back(tensor);
        begins.push_back(begin);
        ends.push_back(std::min(begin + kPart, size));
      }
    count_ = tensors.size();
    tensors_ = kernel.table(tensors);
    begins_ = kernel.table(begins);
    ends_ = kernel.table(ends);
  }
  int64_t count() const { return count_; }
  Part part(Value unit) const {
    return {kernel_.loadInteger(tensors_, unit), kernel_.loadInteger(begins_, unit), kernel_.loadInteger(ends_, unit)};
  }

private:
  KernelBuilder &kernel_;
  int64_t count_;
  Value tensors_, begins_, ends_;
};

/// Largest multiple of `step` that is not beyond the part's length, as an end.
Value wholeEnd(KernelBuilder &kernel, const Part &part, int64_t step) {
  Value length = kernel.subtract(part.end, part.begin);
  return kernel.add(part.begin, kernel.multiply(kernel.divide(length, step), step));
}

} // namespace

FailureOr<WorkUnits> buildMultiTensor(KernelBuilder &kernel, const KernelFrame &frame, int64_t tensors) {
  FailureOr<MultiTensorPlan> plan = MultiTensorPlan::make(frame.region, tensors);
  if (failed(plan))
    return failure();
  const TensorBody &first = plan->first;

  unsigned lanes = chooseLanes(frame.region);
  Parts parts(kernel, plan->sizes);
  Value numbers = kernel.table(plan->argumentNumbers);
  int64_t operandCount = frame.operands.size(), argumentCount = first.arguments.size(), resultCount = first.results.size();
  kernel.loop(frame.begin, frame.end, 1, [&](Value unit) {
    Part part = parts.part(unit);
    KernelBuilder::Values operands(operandCount), results;
    Value firstNumber = kernel.multiply(part.tensor, argumentCount);
    for (auto [i, argument] : llvm::enumerate(first.arguments))
      if (Value &pointer = operands[argument.getArgNumber()]; !pointer)
        pointer = kernel.loadPointer(frame.arguments, kernel.loadInteger(numbers, kernel.add(firstNumber, kernel.integer(i))));
    Value firstResult = kernel.add(kernel.multiply(part.tensor, resultCount), kernel.integer(operandCount));
    for (int64_t i = 0; i < resultCount; ++i)
      results.push_back(kernel.loadPointer(frame.arguments, kernel.add(firstResult, kernel.integer(i))));
    auto compute = [&](Expression &expression, Value from, Value to, unsigned count) {
      expression.emitInvariants(kernel, operands, count);
      kernel.loop(from, to, count, [&](Value i) {
        Lanes all{count, count};
        for (auto [result, pointer, value] : llvm::zip_equal(first.results, results, expression.emit(kernel, i, all)))
          kernel.store(pointer, tape::elementOf(result), i, value, all);
      });
    };
    Value whole = wholeEnd(kernel, part, lanes);
    compute(plan->vectors, part.begin, whole, lanes);
    if (lanes > 1)
      compute(plan->scalars, whole, part.end, 1);
  });
  return WorkUnits{parts.count(), std::min(kPart, *llvm::max_element(plan->sizes))};
}

WorkUnits buildSumOfSquaresParts(KernelBuilder &kernel, const KernelFrame &frame, tape::SumOfSquaresPartsOp op) {
  SmallVector<int64_t> sizes, argumentNumbers;
  for (Value tensor : op.getTensors()) {
    sizes.push_back(tape::elementCount(tensor.getType()));
    argumentNumbers.push_back(cast<BlockArgument>(tensor).getArgNumber());
  }
  Parts parts(kernel, sizes);
  Value numbers = kernel.table(argumentNumbers);
  Type element = tape::elementOf(op.getTensors().front()), computed = tape::elementOf(op.getResult());
  Value scale;
  if (op.getScale()) // the last of the op's operands
    scale = kernel.load(frame.operands.back(), tape::elementOf(op.getScale()), kernel.integer(0), 0, {1, 1});
  using Values = KernelBuilder::Values;
  kernel.loop(frame.begin, frame.end, 1, [&](Value unit) {
    Part part = parts.part(unit);
    Value pointer = kernel.loadPointer(frame.arguments, kernel.loadInteger(numbers, part.tensor));
    auto addSquare = [&](Value sum, Value at, Lanes lanes) {
      Value x = kernel.load(pointer, element, at, 1, lanes);
      if (scale)
        x = kernel.multiplyElements(x, kernel.splat(scale, lanes.count));
      return kernel.addElements(sum, kernel.multiplyElements(x, x));
    };
    Value stepped = wholeEnd(kernel, part, kAccumulators * kLanes), whole = wholeEnd(kernel, part, kLanes);
    Values sums(kAccumulators, kernel.constant(computed, kLanes, 0));
    sums = kernel.loop(part.begin, stepped, kAccumulators * kLanes, sums, [&](Value i, Values into) {
      for (unsigned which = 0; which < kAccumulators; ++which)
        into[which] = addSquare(into[which], kernel.add(i, kernel.integer(which * kLanes)), {kLanes, kLanes});
      return into;
    });
    sums = kernel.loop(stepped, whole, kLanes, sums, [&](Value i, Values into) {
      into[0] = addSquare(into[0], i, {kLanes, kLanes});
      return into;
    });
    auto add = [&](Value a, Value b) { return kernel.addElements(a, b); };
    Value total = kernel.combineLanes(add(add(sums[0], sums[1]), add(sums[2], sums[3])), add);
    total = kernel.loop(whole, part.end, 1, {total}, [&](Value i, Values into) {
      return Values{addSquare(into[0], i, {1, 1})};
    }).front();
    kernel.store(frame.results[0], computed, unit, total, {1, 1});
  });
  return {parts.count(), std::min(kPart, *llvm::max_element(sizes))};
}

} // namespace tapeout::codegen
