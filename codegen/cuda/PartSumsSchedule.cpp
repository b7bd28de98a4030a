// Sums of parts for many tensors in one launch: a block works on 32 columns of one of them. Rows are added in the order of
// the schedule for columns (ColumnSchedule.cpp): the bits are those of a kernel for one tensor.
#include "codegen/cuda/BlockTable.h"
#include "codegen/cuda/Schedules.h"
#include "codegen/kernel/Reducer.h"

#include "llvm/Support/MathExtras.h"

using namespace mlir;

namespace tapeout::codegen {
namespace {

using Values = KernelBuilder::Values;
constexpr unsigned kLanes = 4;
constexpr int64_t kAcross = 8, kDeep = 32; // threads of a block: vectors of columns, rows
constexpr int64_t kSums = tape::kBandSlots;

} // namespace

LaunchShape buildPartSums(CudaKernelBuilder &kernel, const CudaFrame &frame) {
  SmallVector<tape::ReduceOp> ops;
  SmallVector<int64_t> rows, columns, blocks, operands;
  for (Value result : frame.terminator()->getOperands()) {
    auto op = result.getDefiningOp<tape::ReduceOp>();
    ArrayRef<int64_t> shape = tape::shapeOf(op.getOperand());
    ops.push_back(op);
    rows.push_back(shape[0]);
    columns.push_back(shape[1]);
    blocks.push_back(llvm::divideCeil(shape[1], kAcross * kLanes));
    operands.push_back(cast<BlockArgument>(op.getOperand()).getArgNumber());
  }
  Reducer reducer{kernel, kLanes};
  tape::ReduceOp first = ops.front();
  Type f32 = tape::elementOf(first.getOperand());
  BlockTable table(kernel, blocks);
  auto [tensor, block] = table.find();
  Value rowCount = kernel.loadInteger(kernel.table(rows), tensor),
        width = kernel.loadInteger(kernel.table(columns), tensor);
  Value operand = frame.pointerOf(kernel, kernel.loadInteger(kernel.table(operands), tensor));
  Value result = frame.pointerOf(kernel, kernel.add(tensor, kernel.integer(frame.region->getNumArguments())));
  Value thread = kernel.threadIndex(), x = kernel.remainder(thread, kAcross), y = kernel.divide(thread, kAcross);
  Value column = kernel.multiply(kernel.add(kernel.multiply(block, kAcross), x), kLanes);
  Value inside = kernel.below(column, width), last = kernel.subtract(rowCount, kernel.integer(1));
  Value place = kernel.minimum(column, kernel.subtract(width, kernel.integer(kLanes)));

  Values sums = kernel.loop(y, rowCount, kSums * kDeep, reducer.neutrals(first, kSums), [&](Value from, Values in) {
    Values numbers, values;
    for (int64_t i = 0; i < kSums; ++i) {
      numbers.push_back(kernel.add(from, kernel.integer(i * kDeep)));
      Value offset = kernel.add(kernel.multiply(kernel.minimum(numbers[i], last), width), place);
      values.push_back(kernel.load(operand, f32, offset, 1, {kLanes, kLanes}, kLanes));
    }
    for (int64_t i = 0; i < kSums; ++i)
      in[i] = reducer.combine(first, in[i],
                              kernel.select(kernel.below(numbers[i], rowCount), values[i], reducer.neutral(first)));
    return in;
  });
  Value sum =
      reducer.combine(first, reducer.combine(first, sums[0], sums[1]), reducer.combine(first, sums[2], sums[3]));

  Value shared = kernel.sharedArray(f32, kAcross * kDeep * kLanes);
  auto placeOf = [&](Value row) { return kernel.multiply(kernel.add(kernel.multiply(row, kAcross), x), kLanes); };
  auto read = [&](Value row) { return kernel.load(shared, f32, placeOf(row), 1, {kLanes, kLanes}, kLanes); };
  kernel.store(shared, f32, placeOf(y), sum, {kLanes, kLanes}, kLanes);
  for (int64_t half = kDeep / 2; half > 0; half /= 2) {
    kernel.barrier();
    kernel.ifThen(kernel.less(y, half), [&] {
      Value both = reducer.combine(first, read(y), read(kernel.add(y, kernel.integer(half))));
      kernel.store(shared, f32, placeOf(y), both, {kLanes, kLanes}, kLanes);
    });
  }
  kernel.ifThen(kernel.both(inside, kernel.equal(y, 0)), [&] {
    kernel.store(result, f32, column, read(y), {kLanes, kLanes}, kLanes);
  });
  return {table.count(), kAcross * kDeep};
}

} // namespace tapeout::codegen
