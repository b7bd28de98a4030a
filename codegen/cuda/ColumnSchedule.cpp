// Columns: the threads of a block are a grid, one vector of columns across and several rows deep. Each sums rows
// at a fixed distance; a tree in shared memory combines the rows.
#include "codegen/cuda/Schedules.h"
#include "codegen/kernel/ColumnPlan.h"
#include "codegen/kernel/Reducer.h"
#include "ir/tape/Tape.h"

#include "mlir/IR/TypeUtilities.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;

namespace tapeout::codegen {
namespace {

using Values = KernelBuilder::Values;
constexpr int64_t kThreads = 256;
constexpr int64_t kSums = tape::kBandSlots;   // partial results of a thread, which takes rows into them in turn
constexpr int64_t kInFlight = 4 * kSums;      // rows that a thread reads together
constexpr int64_t kFewBlocks = 128;           // that do not fill a GPU

class ColumnKernel {
public:
  ColumnKernel(CudaKernelBuilder &kernel, const CudaFrame &frame, ColumnPlan &plan, unsigned lanes)
      : kernel_(kernel), frame_(frame), plan_(plan), space_(plan.space), lanes_(lanes), reducer_{kernel, lanes},
        kept_(space_.extents(false)), reduced_(space_.extents(true)), vectors_(space_.laneExtent() / lanes),
        rows_(ShapedType::getNumElements(reduced_)), outer_(ShapedType::getNumElements(kept_)) {
    few_ = outer_ * static_cast<int64_t>(llvm::divideCeil(vectors_, kWarp)) < kFewBlocks;
    across_ = std::min<int64_t>(llvm::PowerOf2Ceil(vectors_), few_ ? kWarp / 4 : kWarp);
    deep_ = tape::bandsOf(plan.ops.front()) ? 1 : std::min<int64_t>(llvm::PowerOf2Ceil(rows_), kThreads / across_);
    perBlock_ = kThreads / (across_ * deep_);
    if (outer_ < perBlock_)
      perBlock_ = llvm::PowerOf2Ceil(outer_);
  }

  LaunchShape emit() {
    plan_.expression.emitInvariants(kernel_, frame_.operands, lanes_);
    int64_t columnBlocks = llvm::divideCeil(vectors_, across_);
    Value thread = kernel_.threadIndex(), block = kernel_.blockIndex();
    x_ = kernel_.remainder(thread, across_);
    y_ = kernel_.remainder(kernel_.divide(thread, across_), deep_);
    z_ = kernel_.divide(thread, across_ * deep_);
    Value vector = kernel_.add(kernel_.multiply(kernel_.remainder(block, columnBlocks), across_), x_);
    Value outer = kernel_.add(kernel_.multiply(kernel_.divide(block, columnBlocks), perBlock_), z_);
    // Threads without a column compute the last one once more and store nothing.
    Value inside = kernel_.both(kernel_.less(vector, vectors_), kernel_.less(outer, outer_));
    column_ = kernel_.multiply(kernel_.minimum(vector, kernel_.integer(vectors_ - 1)), lanes_);
    keptIndices_ = kernel_.delinearize(kernel_.minimum(outer, kernel_.integer(outer_ - 1)), kept_);

    Values totals = combineThreads(sumRows());
    Values none(reduced_.size(), kernel_.integer(0));
    View result = space_.rowMajor(/*withReduced=*/false);
    Value offset = kernel_.linear(0, result.strides, mergeIndices(space_, keptIndices_, none, column_));
    kernel_.ifThen(kernel_.both(inside, kernel_.equal(y_, 0)), [&] {
      for (auto [op, pointer, total] : llvm::zip_equal(plan_.ops, frame_.results, totals))
        kernel_.store(pointer, tape::elementOf(op.getResult()), offset, total, {lanes_, lanes_}, lanes_);
    });
    return {columnBlocks * static_cast<int64_t>(llvm::divideCeil(outer_, perBlock_)), across_ * deep_ * perBlock_};
  }

private:
  /// Takes `count` rows from `first` on, each deep_ after the one before, into kSums partial results of each op.
  Values takeRows(Value first, int64_t count, bool whole, Values partial) {
    SmallVector<Values> values;
    Values numbers;
    for (int64_t i = 0; i < count; ++i) {
      numbers.push_back(kernel_.add(first, kernel_.integer(i * deep_)));
      Value row = whole ? numbers[i] : kernel_.minimum(numbers[i], kernel_.integer(rows_ - 1));
      Values indices = mergeIndices(space_, keptIndices_, kernel_.delinearize(row, reduced_), column_);
      values.push_back(plan_.expression.emit(kernel_, indices, {lanes_, lanes_}));
    }
    for (int64_t i = 0; i < count; ++i) {
      if (!whole)
        for (auto [op, value] : llvm::zip_equal(plan_.ops, values[i]))
          value = kernel_.select(kernel_.less(numbers[i], rows_), value, reducer_.neutral(op));
      reducer_.accumulate(plan_.ops, partial, i % kSums, kSums, values[i], {lanes_, lanes_});
    }
    return partial;
  }

  Values sumRows() {
    // As far as registers go, of which the threads of few blocks have many.
    int64_t inFlight = plan_.expression.accesses().size() == 1 ? kInFlight : few_ ? kInFlight / 2 : kSums;
    int64_t step = inFlight * deep_, whole = rows_ / step * step;
    Values partial = reducer_.neutrals(plan_.ops, kSums);
    if (whole > 0)
      partial = kernel_.loop(kernel_.integer(0), kernel_.integer(whole), step, partial, [&](Value from, Values in) {
        return takeRows(kernel_.add(from, y_), inFlight, true, in);
      });
    if (int64_t left = llvm::divideCeil(rows_ - whole, deep_))
      partial = takeRows(kernel_.add(kernel_.integer(whole), y_), left, false, partial);
    Values sums;
    for (auto [number, op] : llvm::enumerate(plan_.ops)) {
      ArrayRef<Value> p = ArrayRef<Value>(partial).slice(number * kSums, kSums);
      sums.push_back(reducer_.combine(op, reducer_.combine(op, p[0], p[1]), reducer_.combine(op, p[2], p[3])));
    }
    return sums;
  }

  /// The rows of the block: y with y + half, and so on. The results are right where y is 0.
  Values combineThreads(Values sums) {
    if (deep_ == 1)
      return sums;
    auto placeOf = [&](Value y) {
      Value line = kernel_.add(kernel_.multiply(z_, deep_), y);
      return kernel_.multiply(kernel_.add(kernel_.multiply(line, across_), x_), lanes_);
    };
    Type widest;
    for (Value sum : sums) {
      Type element = getElementTypeOrSelf(sum.getType());
      widest = !widest || tape::elementBytes(element) > tape::elementBytes(widest) ? element : widest;
    }
    Value shared = kernel_.sharedArray(widest, across_ * deep_ * perBlock_ * lanes_); // for one after the other
    for (auto [number, op, sum] : llvm::enumerate(plan_.ops, sums)) {
      Type element = getElementTypeOrSelf(sum.getType());
      auto read = [&](Value y) { return kernel_.load(shared, element, placeOf(y), 1, {lanes_, lanes_}, lanes_); };
      if (number > 0)
        kernel_.barrier(); // the result before has been read
      kernel_.store(shared, element, placeOf(y_), sum, {lanes_, lanes_}, lanes_);
      for (int64_t half = deep_ / 2; half > 0; half /= 2) {
        kernel_.barrier();
        kernel_.ifThen(kernel_.less(y_, half), [&] {
          Value both = reducer_.combine(op, read(y_), read(kernel_.add(y_, kernel_.integer(half))));
          kernel_.store(shared, element, placeOf(y_), both, {lanes_, lanes_}, lanes_);
        });
      }
      sum = read(y_); // of y 0: by the thread that has stored it
    }
    return sums;
  }

  CudaKernelBuilder &kernel_;
  const CudaFrame &frame_;
  ColumnPlan &plan_;
  const IterationSpace &space_;
  unsigned lanes_;
  Reducer reducer_;
  SmallVector<int64_t> kept_, reduced_; // extents of all dimensions but the last
  int64_t vectors_, rows_, outer_;      // columns in vectors, rows that are reduced, separate reductions
  int64_t across_, deep_, perBlock_;    // threads of a block: vectors, rows, separate reductions
  bool few_;                            // blocks, too few to fill a GPU
  Value x_, y_, z_, column_;
  Values keptIndices_;
};

} // namespace

FailureOr<LaunchShape> buildColumns(CudaKernelBuilder &kernel, const CudaFrame &frame) {
  FailureOr<ColumnPlan> plan = ColumnPlan::make(frame.region);
  if (failed(plan))
    return failure();
  // The order of a band's sums does not depend on lanes, that of others does: it may not depend on types.
  bool bands = tape::bandsOf(plan->ops.front()).has_value();
  unsigned lanes = chooseLanes(frame.region, plan->space.laneExtent(), bands ? lanesOf16Bytes(frame.region) : 4);
  return ColumnKernel(kernel, frame, *plan, lanes).emit();
}

} // namespace tapeout::codegen
