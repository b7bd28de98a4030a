// Kernels over many tensors of different sizes in one launch: a block works on up to 4,096 elements of one of them.
#include "codegen/cuda/BlockTable.h"
#include "codegen/cuda/Schedules.h"
#include "codegen/kernel/MultiTensorPlan.h"
#include "ir/tape/Reduction.h"

#include "llvm/Support/MathExtras.h"

using namespace mlir;

namespace tapeout::codegen {
namespace {

using Values = KernelBuilder::Values;
constexpr int64_t kPart = tape::SumOfSquaresPartsOp::kPart;
constexpr int64_t kThreads = 256;

/// The elements of this block.
struct Part {
  Value tensor, begin, end;
};

/// Blocks of at most kPart elements, tensor after tensor.
class Parts {
public:
  Parts(CudaKernelBuilder &kernel, ArrayRef<int64_t> sizes)
      : kernel_(kernel), table_(kernel, blocksOf(sizes)), sizes_(kernel.table(sizes)) {}
  int64_t count() const { return table_.count(); }

  Part part() const {
    auto [tensor, number] = table_.find();
    Value begin = kernel_.multiply(number, kPart);
    Value end = kernel_.minimum(kernel_.add(begin, kernel_.integer(kPart)), kernel_.loadInteger(sizes_, tensor));
    return {tensor, begin, end};
  }

private:
  static SmallVector<int64_t> blocksOf(ArrayRef<int64_t> sizes) {
    SmallVector<int64_t> blocks;
    for (int64_t size : sizes)
      blocks.push_back(llvm::divideCeil(size, kPart));
    return blocks;
  }

  CudaKernelBuilder &kernel_;
  BlockTable table_;
  Value sizes_;
};

/// Largest multiple of `lanes` elements that is not beyond the part's length, as an end.
Value wholeEnd(CudaKernelBuilder &kernel, const Part &part, int64_t lanes) {
  Value length = kernel.subtract(part.end, part.begin);
  return kernel.add(part.begin, kernel.multiply(kernel.divide(length, lanes), lanes));
}

} // namespace

FailureOr<LaunchShape> buildMultiTensor(CudaKernelBuilder &kernel, const CudaFrame &frame, int64_t tensors) {
  FailureOr<MultiTensorPlan> plan = MultiTensorPlan::make(frame.region, tensors);
  if (failed(plan))
    return failure();
  const TensorBody &first = plan->first;

  unsigned lanes = chooseLanes(frame.region, kPart, lanesOf16Bytes(frame.region));
  Parts parts(kernel, plan->sizes);
  Value numbers = kernel.table(plan->argumentNumbers);
  int64_t operandCount = frame.region->getNumArguments(), resultCount = first.results.size();
  Part part = parts.part();
  Values operands(operandCount), results;
  Value firstNumber = kernel.multiply(part.tensor, first.arguments.size());
  for (auto [i, argument] : llvm::enumerate(first.arguments))
    if (Value &pointer = operands[argument.getArgNumber()]; !pointer)
      pointer = frame.pointerOf(kernel, kernel.loadInteger(numbers, kernel.add(firstNumber, kernel.integer(i))));
  Value firstResult = kernel.add(kernel.multiply(part.tensor, resultCount), kernel.integer(operandCount));
  for (int64_t i = 0; i < resultCount; ++i)
    results.push_back(frame.pointerOf(kernel, kernel.add(firstResult, kernel.integer(i))));

  auto store = [&](ArrayRef<Value> values, Value at, unsigned count) {
    for (auto [result, pointer, value] : llvm::zip_equal(first.results, results, values))
      kernel.store(pointer, tape::elementOf(result), at, value, {count, count}, count);
  };
  auto compute = [&](Expression &expression, Value at, Value end, unsigned count) {
    kernel.ifThen(kernel.below(at, end), [&] { store(expression.emit(kernel, at, {count, count}), at, count); });
  };
  Value thread = kernel.threadIndex(), whole = wholeEnd(kernel, part, lanes);
  plan->vectors.emitInvariants(kernel, operands, lanes);
  auto vectorAt = [&](int64_t i) {
    return kernel.add(part.begin, kernel.multiply(kernel.add(thread, kernel.integer(i / lanes)), lanes));
  };
  const int64_t step = kThreads * lanes;
  static_assert(kPart % (2 * kThreads * 8) == 0, "vectors in pairs");
  kernel.ifElse(
      kernel.equal(kernel.subtract(part.end, part.begin), kPart),
      [&] { // the vectors of a pair are all read before anything is stored, which might be read next
        for (int64_t i = 0; i < kPart; i += 2 * step) {
          Value at[] = {vectorAt(i), vectorAt(i + step)};
          Values values[2];
          for (int vector : {0, 1})
            values[vector] = plan->vectors.emit(kernel, at[vector], {lanes, lanes});
          store(values[0], at[0], lanes);
          store(values[1], at[1], lanes);
        }
      },
      [&] {
        for (int64_t i = 0; i < kPart; i += step)
          compute(plan->vectors, vectorAt(i), whole, lanes);
      });
  if (lanes > 1) {
    plan->scalars.emitInvariants(kernel, operands, 1);
    compute(plan->scalars, kernel.add(whole, thread), part.end, 1);
  }
  return LaunchShape{parts.count(), kThreads};
}

LaunchShape buildSumOfSquaresParts(CudaKernelBuilder &kernel, const CudaFrame &frame, tape::SumOfSquaresPartsOp op) {
  SmallVector<int64_t> sizes, argumentNumbers;
  for (Value tensor : op.getTensors()) {
    sizes.push_back(tape::elementCount(tensor.getType()));
    argumentNumbers.push_back(cast<BlockArgument>(tensor).getArgNumber());
  }
  Parts parts(kernel, sizes);
  Type element = tape::elementOf(op.getTensors().front()), sumType = tape::elementOf(op.getResult());
  unsigned lanes = sumType.isF64() ? 1 : lanesOf16Bytes(frame.region);
  Part part = parts.part();
  Value pointer = frame.pointerOf(kernel, kernel.loadInteger(kernel.table(argumentNumbers), part.tensor));
  Value thread = kernel.threadIndex(), whole = wholeEnd(kernel, part, lanes), scale;
  if (Value number = op.getScale()) {
    Value at = frame.pointerOf(kernel, kernel.integer(cast<BlockArgument>(number).getArgNumber()));
    scale = kernel.load(at, tape::elementOf(number), kernel.integer(0), 0, {1, 1});
  }

  // Beyond the end, the first vector is read once more: slots are never shorter than a vector.
  auto square = [&](Value at, Value end, unsigned count) {
    Value inside = kernel.below(at, end);
    Value x = kernel.load(pointer, element, kernel.select(inside, at, part.begin), 1, {count, count}, count);
    if (scale)
      x = kernel.multiplyElements(x, kernel.splat(scale, count));
    return kernel.select(inside, kernel.multiplyElements(x, x), kernel.constant(sumType, count, 0));
  };
  auto add = [&](Value a, Value b) { return kernel.addElements(a, b); };
  Value sum;
  for (int64_t i = 0; i < kPart; i += kThreads * lanes) {
    Value vector = kernel.add(thread, kernel.integer(i / lanes));
    Value x = square(kernel.add(part.begin, kernel.multiply(vector, lanes)), whole, lanes);
    sum = sum ? add(sum, x) : x;
  }
  Value total = kernel.combineLanes(sum, add);
  if (lanes > 1)
    total = add(total, square(kernel.add(whole, thread), part.end, 1));
  total = kernel.combineBlock(total, kThreads, add);
  Value result = frame.pointerOf(kernel, kernel.integer(frame.region->getNumArguments()));
  kernel.ifThen(kernel.equal(thread, 0), [&] { kernel.store(result, sumType, kernel.blockIndex(), total, {1, 1}); });
  return {parts.count(), kThreads};
}

} // namespace tapeout::codegen
