// embedding_grad: a block owns 64 rows of the table, so nothing is added by two blocks.
//
//   1. all threads read all ids, in order, and list those of the block's rows in shared memory;
//   2. when the list could overflow, and at the end, a stable counting sort by row puts the tokens of each row together;
//   3. row by row, groups of threads sum the gradients of every so manieth token of the row; the first group adds the
//      sums of the others in order, and what earlier lists gave.
//
// The order of additions depends on the ids only. A frequent id is shared out over groups, a rare one costs no more than
// its bytes, a missing one a store of zeros.
#include "codegen/cuda/Schedules.h"

#include "mlir/IR/TypeUtilities.h"

#include "llvm/Support/MathExtras.h"

using namespace mlir;

namespace tapeout::codegen {
namespace {

using Values = KernelBuilder::Values;
constexpr int64_t kRows = 64;
constexpr int64_t kThreads = 512, kWarps = kThreads / kWarp;
constexpr int64_t kRounds = 4;                       // of ids, between two barriers
constexpr int64_t kBatch = kRounds * kThreads;       // ids read between two barriers
constexpr int64_t kListLength = 2 * kBatch;
constexpr int64_t kTokens = EmbeddingGradShape::kMostTokens; // an entry of the list is row * kTokens + token
constexpr int64_t kInFlight = 4;                     // gradients that a thread reads together
static_assert(kRounds * kWarps == kRows, "one prefix sum serves both");

class EmbeddingGradKernel {
public:
  EmbeddingGradKernel(CudaKernelBuilder &kernel, const EmbeddingGradShape &shape, Value ids, Value gradient, Value result)
      : k_(kernel), shape_(shape), ids_(ids), gradient_(gradient), result_(result) {
    while (shape.width % lanes_ != 0)
      lanes_ /= 2;
    vectors_ = shape.width / lanes_;
    across_ = std::min(vectors_, kThreads);
    groups_ = kThreads / across_;
  }

  LaunchShape emit() {
    Type i32 = k_.builder().getI32Type();
    list_ = k_.sharedArray(i32, kListLength);
    sorted_ = k_.sharedArray(i32, kListLength);
    counts_ = k_.sharedArray(i32, kRows);
    Type sumType = shape_.element.isF64() ? shape_.element : k_.builder().getF32Type();
    partial_ = groups_ > 1 ? k_.sharedArray(sumType, kThreads * lanes_) : Value();
    thread_ = k_.threadIndex();
    inWarp_ = k_.remainder(thread_, kWarp);
    warp_ = k_.divide(thread_, kWarp);
    firstRow_ = k_.multiply(k_.blockIndex(), kRows);

    // Carried: the length of the list, and how often it has been added to the result.
    Values state{k_.integer(0), k_.integer(0)};
    state = k_.loop(k_.integer(0), k_.integer(shape_.tokens), kBatch, state, [&](Value from, Values in) {
      Value length = listTokens(from, in[0]);
      Value full = k_.below(k_.integer(kListLength - kBatch), length);
      k_.ifThen(full, [&] { addList(length, in[1]); });
      return Values{k_.select(full, k_.integer(0), length), k_.select(full, k_.add(in[1], k_.integer(1)), in[1])};
    });
    addList(state[0], state[1]);
    return {static_cast<int64_t>(llvm::divideCeil(shape_.rows, kRows)), kThreads};
  }

private:
  Value loadInteger(Value array, Value place) { return k_.toIndex(k_.load(array, k_.builder().getI32Type(), place, 1, {1, 1})); }
  void storeInteger(Value array, Value place, Value value) {
    Type i32 = k_.builder().getI32Type();
    k_.store(array, i32, place, k_.convertIndex(value, i32), {1, 1});
  }
  /// The sum of the first `number` of the counts. All threads of the warp take part, with one number.
  Value countsBefore(Value number) {
    Value sum;
    for (int64_t i = 0; i < kRows; i += kWarp) {
      Value place = k_.add(inWarp_, k_.integer(i));
      Value count = k_.select(k_.below(place, number), loadInteger(counts_, place), k_.integer(0));
      sum = sum ? k_.add(sum, count) : count;
    }
    return k_.combineThreads(sum, kWarp, [&](Value a, Value b) { return k_.add(a, b); });
  }
  void storeCount(Value place, Value count) {
    k_.ifThen(k_.equal(inWarp_, 0), [&] { storeInteger(counts_, place, count); });
  }

  /// Appends the tokens from `from` on that belong to the block's rows; returns the new length.
  Value listTokens(Value from, Value length) {
    Values isOwn, entries, before;
    for (int64_t round = 0; round < kRounds; ++round) {
      Value token = k_.add(from, k_.add(thread_, k_.integer(round * kThreads)));
      Value exists = k_.less(token, shape_.tokens);
      Value id = k_.load(ids_, shape_.idType, k_.minimum(token, k_.integer(shape_.tokens - 1)), 1, {1, 1});
      Value isKnown = k_.both(exists, k_.inRange(id, shape_.rows));
      Value row = k_.subtract(k_.toIndex(id), firstRow_);
      isOwn.push_back(k_.both(isKnown, k_.inRange(row, kRows)));
      entries.push_back(k_.add(k_.multiply(row, kTokens), token));
      Value bits = k_.ballot(isOwn.back());
      before.push_back(k_.countBits(k_.bitsBefore(bits)));
      storeCount(k_.add(warp_, k_.integer(round * kWarps)), k_.countBits(bits));
    }
    k_.barrier();
    for (int64_t round = 0; round < kRounds; ++round) {
      Value place = k_.add(length, k_.add(countsBefore(k_.add(warp_, k_.integer(round * kWarps))), before[round]));
      k_.ifThen(isOwn[round], [&] { storeInteger(list_, place, entries[round]); });
    }
    Value total = countsBefore(k_.integer(kRows));
    k_.barrier();
    return k_.add(length, total);
  }

  /// Calls body(whether the thread's entry belongs to the row, the entry) for each 32 entries of the list.
  Values forEachEntry(Value length, Value row, Values carried, llvm::function_ref<Values(Value, Value, Values)> body) {
    return k_.loop(k_.integer(0), length, kWarp, carried, [&](Value from, Values in) {
      Value place = k_.add(from, inWarp_);
      Value entry = loadInteger(list_, k_.minimum(place, k_.integer(kListLength - 1)));
      Value isOfRow = k_.both(k_.below(place, length), k_.same(k_.divide(entry, kTokens), row));
      return body(isOfRow, k_.remainder(entry, kTokens), in);
    });
  }

  /// The tokens of the list, those of the first row first. Leaves the number of tokens of each row in counts_.
  void sort(Value length) {
    auto forEachRow = [&](llvm::function_ref<void(Value)> body) { // of the warp
      for (int64_t i = 0; i < kRows; i += kWarps)
        body(k_.add(warp_, k_.integer(i)));
    };
    forEachRow([&](Value row) {
      Values count = forEachEntry(length, row, {k_.integer(0)}, [&](Value isOfRow, Value, Values in) {
        return Values{k_.add(in[0], k_.countBits(k_.ballot(isOfRow)))};
      });
      storeCount(row, count[0]);
    });
    k_.barrier();
    forEachRow([&](Value row) {
      forEachEntry(length, row, {countsBefore(row)}, [&](Value isOfRow, Value token, Values in) {
        Value bits = k_.ballot(isOfRow);
        Value place = k_.add(in[0], k_.countBits(k_.bitsBefore(bits)));
        k_.ifThen(isOfRow, [&] { storeInteger(sorted_, place, token); });
        return Values{k_.add(in[0], k_.countBits(bits))};
      });
    });
    k_.barrier();
  }

  void addList(Value length, Value timesAdded) {
    sort(length);
    k_.loop(k_.integer(0), k_.integer(kRows), 1, {k_.integer(0)}, [&](Value row, Values in) {
      Value begin = in[0], end = k_.add(begin, loadInteger(counts_, row));
      Value isFirst = k_.equal(timesAdded, 0), tableRow = k_.add(firstRow_, row);
      Value isNeeded = k_.either(isFirst, k_.below(begin, end));
      k_.ifThen(k_.both(isNeeded, k_.less(tableRow, shape_.rows)), [&] {
        for (int64_t first = 0; first < vectors_; first += across_)
          addRow(tableRow, begin, end, isFirst, first);
      });
      return Values{end};
    });
    k_.barrier(); // the list is used again
  }

  /// Vectors [first, first + across_) of a row; tokens [begin, end) of the sorted list.
  void addRow(Value row, Value begin, Value end, Value isFirst, int64_t first) {
    Value group = k_.divide(thread_, across_), vector = k_.add(k_.remainder(thread_, across_), k_.integer(first));
    Value column = k_.multiply(k_.minimum(vector, k_.integer(vectors_ - 1)), lanes_);
    Value place = k_.add(k_.multiply(row, shape_.width), column);
    auto loadAt = [&](Value pointer, Value offset) {
      return k_.load(pointer, shape_.element, offset, 1, {lanes_, lanes_}, lanes_);
    };
    Type element = getElementTypeOrSelf(loadAt(gradient_, column).getType());
    Value zero = k_.constant(element, lanes_, 0);
    Value start = k_.select(k_.less(group, groups_), k_.add(begin, group), end); // some threads may be in no group
    Value sum = k_.loop(start, end, groups_ * kInFlight, {zero}, [&](Value from, Values in) {
      Values values;
      for (int64_t i = 0; i < kInFlight; ++i) {
        Value number = k_.add(from, k_.integer(i * groups_)), exists = k_.below(number, end);
        Value token = loadInteger(sorted_, k_.minimum(number, k_.subtract(end, k_.integer(1))));
        values.push_back(k_.select(exists, loadAt(gradient_, k_.add(k_.multiply(token, shape_.width), column)), zero));
      }
      for (Value value : values)
        in[0] = k_.addElements(in[0], value);
      return in;
    }).front();
    sum = addGroups(sum, group, vector, element, first);
    Value stores = k_.both(k_.equal(group, 0), k_.less(vector, vectors_));
    k_.ifThen(stores, [&] {
      k_.ifElse(
          isFirst, [&] { k_.store(result_, shape_.element, place, sum, {lanes_, lanes_}, lanes_); },
          [&] { k_.store(result_, shape_.element, place, k_.addElements(loadAt(result_, place), sum), {lanes_, lanes_}, lanes_); });
    });
  }

  /// In group 0, the sum of all groups.
  Value addGroups(Value sum, Value group, Value vector, Type element, int64_t first) {
    if (groups_ == 1)
      return sum;
    Value inGroup = k_.multiply(k_.subtract(vector, k_.integer(first)), lanes_);
    auto placeOf = [&](Value number) { return k_.add(k_.multiply(number, across_ * lanes_), inGroup); };
    k_.ifThen(k_.less(group, groups_), [&] { k_.store(partial_, element, placeOf(group), sum, {lanes_, lanes_}, lanes_); });
    k_.barrier();
    for (int64_t other = 1; other < groups_; ++other)
      sum = k_.addElements(sum, k_.load(partial_, element, placeOf(k_.integer(other)), 1, {lanes_, lanes_}, lanes_));
    k_.barrier();
    return sum;
  }

  CudaKernelBuilder &k_;
  const EmbeddingGradShape &shape_;
  Value ids_, gradient_, result_;
  unsigned lanes_ = 4;
  int64_t vectors_;          // of a row
  int64_t across_, groups_;  // threads for the vectors of a row; groups of so many
  Value thread_, inWarp_, warp_, firstRow_;
  Value list_, sorted_, counts_, partial_; // shared memory
};

} // namespace

LaunchShape buildEmbeddingGrad(CudaKernelBuilder &kernel, const EmbeddingGradShape &shape, Value ids, Value gradient,
                               Value result) {
  return EmbeddingGradKernel(kernel, shape, ids, gradient, result).emit();
}

} // namespace tapeout::codegen
