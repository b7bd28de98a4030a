// sort_ids: a stable counting sort. A block owns 256 rows and places their ids; it reads all ids twice.
//
//   1. Each warp takes a part of the ids, 32 at a time, and counts how many are of each row; ids of rows before the
//      block's are counted too: so many places come before its own.
//   2. Sums over warps and rows turn the counts into the places where each warp's ids of each row begin.
//   3. Each warp takes its ids once more, in the same order, and places them.
//
// Ids of one warp's step that are alike are found by one instruction, so that the time does not depend on how often an
// id occurs. Ids outside the table are one more row, the last one.
#include "codegen/cuda/Schedules.h"

#include "llvm/Support/MathExtras.h"

using namespace mlir;

namespace tapeout::codegen {
namespace {

using Values = KernelBuilder::Values;
constexpr int64_t kRows = 256, kThreads = 1024, kWarps = kThreads / kWarp;
constexpr int64_t kPitch = kWarps + 1; // of the counts of a row: neighbours lie in other banks
constexpr int64_t kInFlight = 4;       // ids that a thread reads together

class SortIdsKernel {
public:
  SortIdsKernel(CudaKernelBuilder &kernel, const CudaFrame &frame, tape::SortIdsOp op)
      : k_(kernel), i32_(kernel.builder().getI32Type()), idType_(tape::elementOf(op.getIds())),
        ids_(frame.operands[0]), order_(frame.results[0]), begins_(frame.results[1]),
        idCount_(tape::elementCount(op.getIds().getType())), rows_(op.getRows()),
        perWarp_(llvm::alignTo(llvm::divideCeil(idCount_, kWarps), kWarp * kInFlight)) {}

  LaunchShape emit() {
    counts_ = k_.sharedArray(i32_, kRows * kPitch);
    totals_ = k_.sharedArray(i32_, kRows);
    Value thread = k_.threadIndex();
    inWarp_ = k_.remainder(thread, kWarp);
    warp_ = k_.divide(thread, kWarp);
    firstRow_ = k_.multiply(k_.blockIndex(), kRows);
    k_.loop(thread, k_.integer(kRows * kPitch), kThreads, [&](Value i) { storeInteger(counts_, i, k_.integer(0)); });
    k_.barrier();

    Value before = walk([&](Value place, Value, Value alike, Value isFirst, Value) {
      k_.ifThen(isFirst, [&] { storeInteger(counts_, place, k_.add(loadInteger(counts_, place), k_.countBits(alike))); });
    });
    before = k_.combineBlock(before, kThreads, [&](Value a, Value b) { return k_.add(a, b); }); // with a barrier
    sumWarps(thread);
    sumRows(before);
    walk([&](Value place, Value isOwn, Value alike, Value isFirst, Value position) {
      Value next = loadInteger(counts_, place);
      k_.warpBarrier();
      k_.ifThen(isFirst, [&] { storeInteger(counts_, place, k_.add(next, k_.countBits(alike))); });
      Value start = loadInteger(totals_, k_.divide(place, kPitch));
      Value to = k_.add(k_.add(start, next), k_.countBits(k_.bitsBefore(alike)));
      k_.ifThen(isOwn, [&] { storeInteger(order_, to, position); });
    });
    return {static_cast<int64_t>(llvm::divideCeil(rows_ + 1, kRows)), kThreads};
  }

private:
  Value loadInteger(Value array, Value place) { return k_.toIndex(k_.load(array, i32_, place, 1, {1, 1})); }
  void storeInteger(Value array, Value place, Value value) {
    k_.store(array, i32_, place, k_.convertIndex(value, i32_), {1, 1});
  }

  /// body(place of the count, is the id of the block, threads of the warp with the same, is the first of them, position)
  /// for the warp's ids, where the block has any. Returns how many ids of the thread are of rows before the block's.
  Value walk(llvm::function_ref<void(Value, Value, Value, Value, Value)> body) {
    Value begin = k_.add(k_.multiply(warp_, perWarp_), inWarp_), end = k_.add(begin, k_.integer(perWarp_));
    Value last = k_.integer(rows_), none = k_.integer(kRows);
    return k_.loop(begin, end, kWarp * kInFlight, {k_.integer(0)}, [&](Value from, Values before) {
      Values positions, rows;
      for (int64_t i = 0; i < kInFlight; ++i) {
        positions.push_back(k_.add(from, k_.integer(i * kWarp)));
        Value id = k_.load(ids_, idType_, k_.minimum(positions[i], k_.integer(idCount_ - 1)), 1, {1, 1});
        rows.push_back(k_.subtract(k_.select(k_.inRange(id, rows_), k_.toIndex(id), last), firstRow_));
      }
      for (auto [position, row] : llvm::zip_equal(positions, rows)) {
        Value exists = k_.less(position, idCount_), isOwn = k_.both(exists, k_.inRange(row, kRows));
        Value isBefore = k_.both(exists, k_.less(row, 0));
        before[0] = k_.select(isBefore, k_.add(before[0], k_.integer(1)), before[0]);
        Value ownCount = k_.countBits(k_.ballot(isOwn));
        k_.ifThen(k_.below(k_.integer(0), ownCount), [&, position = position, row = row] {
          Value alike = k_.matchBits(k_.select(isOwn, row, none));
          Value isFirst = k_.both(isOwn, k_.equal(k_.countBits(k_.bitsBefore(alike)), 0));
          Value place = k_.add(k_.multiply(k_.select(isOwn, row, k_.integer(0)), kPitch), warp_);
          body(place, isOwn, alike, isFirst, position);
          k_.warpBarrier(); // the next ids may be of the same rows
        });
      }
      return before;
    }).front();
  }

  /// A count becomes the sum of those of the warps before, the total that of all.
  void sumWarps(Value row) {
    k_.ifThen(k_.less(row, kRows), [&] {
      Value total = k_.integer(0);
      for (int64_t warp = 0; warp < kWarps; ++warp) {
        Value place = k_.add(k_.multiply(row, kPitch), k_.integer(warp)), count = loadInteger(counts_, place);
        storeInteger(counts_, place, total);
        total = k_.add(total, count);
      }
      storeInteger(totals_, row, total);
    });
    k_.barrier();
  }

  /// A total becomes the place of the row's first id, `before` being that of the block's. Each warp sums for some rows.
  void sumRows(Value before) {
    Values starts;
    for (int64_t i = 0; i < kRows; i += kWarps) {
      Value row = k_.add(warp_, k_.integer(i)), sum = k_.integer(0);
      for (int64_t other = 0; other < kRows; other += kWarp) {
        Value place = k_.add(inWarp_, k_.integer(other));
        sum = k_.select(k_.below(place, row), k_.add(sum, loadInteger(totals_, place)), sum);
      }
      starts.push_back(k_.add(before, k_.combineThreads(sum, kWarp, [&](Value a, Value b) { return k_.add(a, b); })));
    }
    k_.barrier();
    for (auto [i, start] : llvm::enumerate(starts)) {
      Value row = k_.add(warp_, k_.integer(i * kWarps)), tableRow = k_.add(firstRow_, row);
      k_.ifThen(k_.equal(inWarp_, 0), [&, start = start] {
        storeInteger(totals_, row, start);
        k_.ifThen(k_.less(tableRow, rows_ + 1), [&] { storeInteger(begins_, tableRow, start); });
      });
    }
    k_.barrier();
  }

  CudaKernelBuilder &k_;
  Type i32_, idType_;
  Value ids_, order_, begins_;
  int64_t idCount_, rows_, perWarp_;
  Value inWarp_, warp_, firstRow_;
  Value counts_, totals_; // shared memory: of each row and warp; of each row
};

} // namespace

LaunchShape buildSortIds(CudaKernelBuilder &kernel, const CudaFrame &frame, tape::SortIdsOp op) {
  return SortIdsKernel(kernel, frame, op).emit();
}

} // namespace tapeout::codegen
