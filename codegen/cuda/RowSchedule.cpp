// Rows: a power of two of threads for each. Short rows are kept in registers over all passes. Of long ones, what several
// passes read is kept in shared memory where it fits, each thread's elements for itself; otherwise each pass reads the row
// anew, from the cache. Where bands of rows are reduced besides, a block takes a band, four rows at a time, and each thread
// keeps the sums of its columns in registers. A block takes several long rows in turn and copies the next one to shared memory
// while it works on one (StagedRows.h): otherwise memory would rest meanwhile.
#include "codegen/cuda/Schedules.h"
#include "codegen/cuda/StagedRows.h"
#include "codegen/kernel/Reducer.h"
#include "codegen/kernel/RowPlan.h"

#include "llvm/Support/MathExtras.h"

#include <map>

using namespace mlir;

namespace tapeout::codegen {
namespace {

using Values = KernelBuilder::Values;
constexpr int64_t kBlockThreads = 128;  // of a block with several rows
constexpr int64_t kMostThreads = 512, kAllThreads = 1024; // of one row
constexpr int64_t kFewRows = 256;       // that do not fill a GPU: each takes all the threads a block can have
constexpr int64_t kLongRow = kDynamicSharedBytes / 2; // 16-bit elements that shared memory does not hold, so that few rows
                                                      // should be worked on at a time: those that the cache holds
constexpr int64_t kResidentElements = 32; // of a row that a thread keeps in registers
constexpr int64_t kInFlight = 16;       // elements of a long row that a thread reads together
constexpr int64_t kMostTurns = 8;       // long rows of a block: all but the first are copied while it computes
constexpr int64_t kManyBlocks = 1024;   // enough for any GPU to divide evenly

/// How the threads divide a row. Depends on the shape only: fused or not, a sum has one order.
struct Division {
  unsigned lanes;
  int64_t vectors;  // of a row
  int64_t threads;  // of a row
  int64_t perThread; // vectors, rounded up
  bool resident;

  Division(unsigned lanes, int64_t length, int64_t rows) : lanes(lanes), vectors(length / lanes) {
    int64_t most = rows < kFewRows || length > kLongRow ? kAllThreads : kMostThreads;
    threads = std::min<int64_t>(llvm::PowerOf2Ceil(vectors), kWarp);
    while (threads >= kWarp && threads < most && llvm::divideCeil(vectors, threads) * lanes > kResidentElements)
      threads *= 2;
    perThread = llvm::divideCeil(vectors, threads);
    resident = perThread * lanes <= kResidentElements;
  }
  /// Without sums over rows a thread may as well have one vector of it. More threads than a block has share a row by columns.
  static Division ofElements(unsigned lanes, int64_t length) {
    constexpr int64_t kMostAcross = 128;
    Division division(lanes, length, 1);
    division.threads = llvm::divideCeil(division.vectors, llvm::divideCeil(division.vectors, kMostAcross));
    division.threads = llvm::alignTo(division.threads, kWarp / tape::kBandSlots);
    division.perThread = 1;
    division.resident = true;
    return division;
  }

  /// Vectors that a thread reads together. Shared memory answers soon, and registers are scarce beside the copies.
  int64_t inFlight(bool fromShared) const { return std::max<int64_t>(kInFlight / lanes, fromShared ? 2 : 4); }
  int64_t rowsPerBlock() const { return std::max<int64_t>(kBlockThreads / threads, 1); }
};

class RowKernel {
public:
  RowKernel(CudaKernelBuilder &kernel, const CudaFrame &frame, RowPlan &plan, Division division)
      : kernel_(kernel), frame_(frame), plan_(plan), space_(plan.space()), division_(division),
        reducer_{kernel, division.lanes}, staged_(kernel, frame.operands, division.lanes),
        rowsPerBlock_(plan.bandShape() ? tape::kBandSlots : division.rowsPerBlock()), pieces_(space_.extents(true)) {
    pieces_.push_back(space_.laneExtent() / division.lanes);
  }

  LaunchShape emit() {
    for (RowPass *pass : plan_.passes())
      pass->expression->emitInvariants(kernel_, frame_.operands, pass == &plan_.rows() ? 1 : division_.lanes);
    Value thread = kernel_.threadIndex();
    inRow_ = kernel_.remainder(thread, division_.threads);
    rowInBlock_ = kernel_.divide(thread, division_.threads);
    firstVector_ = inRow_;
    known_.resize(division_.resident ? division_.perThread : 0);
    if (!division_.resident)
      chooseStaged();
    makeExchanges();
    if (std::optional<tape::Bands> bands = plan_.bandShape())
      return emitBands(*bands);
    if (!staged_.empty())
      return emitTurns();

    row_ = kernel_.add(kernel_.multiply(kernel_.blockIndex(), rowsPerBlock_), rowInBlock_);
    if (plan_.rowCount() % rowsPerBlock_ != 0) { // threads without a row compute the last one once more and store nothing
      hasRow_ = kernel_.less(row_, plan_.rowCount());
      row_ = kernel_.minimum(row_, kernel_.integer(plan_.rowCount() - 1));
    }
    emitRow();
    return {static_cast<int64_t>(llvm::divideCeil(plan_.rowCount(), rowsPerBlock_)), rowsPerBlock_ * division_.threads};
  }

private:
  /// All passes over the current row, whose columns are taken into `sums` of bands.
  Values emitRow(Values sums = {}) {
    kept_ = kernel_.delinearize(row_, space_.extents(false));
    for (RowPass &pass : plan_.levels())
      for (auto [op, total] : llvm::zip(pass.reductions, reduce(pass)))
        provide(op, total);
    if (RowPass &pass = plan_.bands(); !pass.roots.empty()) // before any store: a result may be written over an operand
      for (int64_t i = 0; i < division_.perThread; ++i) {
        Values values = emit(pass, vectorNumber(i), isWhole(i), &known_[i]);
        reducer_.accumulate(pass.reductions, sums, i, division_.perThread, values, {division_.lanes, division_.lanes});
      }
    if (!plan_.elements().roots.empty())
      storeElements();
    if (!plan_.rows().roots.empty())
      storeRow();
    return sums;
  }

  /// Long rows: a block takes every so many-th. What is staged of the next one is copied meanwhile.
  LaunchShape emitTurns() {
    assert(rowsPerBlock_ == 1 && "a long row takes a block");
    int64_t rows = plan_.rowCount(), turns = std::clamp<int64_t>(rows / kManyBlocks, 1, kMostTurns);
    int64_t blocks = llvm::divideCeil(rows, turns);
    copyRow(kernel_.blockIndex());
    kernel_.loop(kernel_.blockIndex(), kernel_.integer(rows), blocks, [&](Value row) {
      row_ = row;
      Value next = kernel_.add(row, kernel_.integer(blocks));
      hasNext_ = kernel_.less(next, rows);
      nextKept_ = kernel_.delinearize(next, space_.extents(false));
      kernel_.waitForCopies();
      emitRow();
      if (plan_.levels().size() == 1) // else the barrier of another level lies between
        kernel_.barrier();            // what exchangeWarps has left has been read
    });
    // Shared memory holds two blocks; so should the registers.
    return {blocks, division_.threads, division_.threads <= kMostThreads ? 2 : 0};
  }

  /// A block for each band. Thread groups take rows in turn; what they have summed is combined at the end.
  LaunchShape emitBands(const tape::Bands &bands) {
    assert(division_.resident && "rows of bands are short");
    RowPass &pass = plan_.bands();
    int64_t blocksOfBand = llvm::divideCeil(division_.vectors, division_.threads * division_.perThread);
    Value band = kernel_.divide(kernel_.blockIndex(), blocksOfBand), first = kernel_.multiply(band, bands.rows);
    Value part = kernel_.remainder(kernel_.blockIndex(), blocksOfBand);
    firstVector_ = kernel_.add(kernel_.multiply(part, division_.threads), inRow_);
    Values sums = reducer_.neutrals(pass.reductions, division_.perThread);
    sums = kernel_.loop(kernel_.integer(0), kernel_.integer(bands.rows), rowsPerBlock_, sums, [&](Value from, Values in) {
      row_ = kernel_.add(kernel_.add(first, from), rowInBlock_);
      in = emitRow(in);
      if (division_.threads > kWarp && !plan_.levels().empty())
        kernel_.barrier(); // what exchangeWarps has left has been read
      return in;
    });
    Type widest;
    for (tape::ReduceOp op : pass.reductions) {
      Type element = tape::computeType(tape::elementOf(op.getOperand()));
      widest = !widest || tape::elementBytes(element) > tape::elementBytes(widest) ? element : widest;
    }
    sharedBand_ = kernel_.sharedArray(widest, rowsPerBlock_ * division_.threads * division_.lanes); // for one after the other
    for (auto [number, op, result] : llvm::enumerate(pass.reductions, pass.results))
      storeBand(op, result, band, ArrayRef<Value>(sums).slice(number * division_.perThread, division_.perThread));
    return {bands.bands * blocksOfBand, rowsPerBlock_ * division_.threads};
  }

  /// One vector of each thread at a time through shared memory: (0 with 1) with (2 with 3).
  void storeBand(tape::ReduceOp op, unsigned result, Value band, ArrayRef<Value> sums) {
    unsigned lanes = division_.lanes;
    Type element = tape::computeType(tape::elementOf(op.getOperand()));
    auto placeOf = [&](Value slot) {
      return kernel_.multiply(kernel_.add(kernel_.multiply(slot, division_.threads), inRow_), lanes);
    };
    Value place = kernel_.multiply(band, division_.vectors * lanes);
    for (auto [i, sum] : llvm::enumerate(sums)) {
      kernel_.barrier(); // the vector before has been read
      kernel_.store(sharedBand_, element, placeOf(rowInBlock_), sum, {lanes, lanes}, lanes);
      kernel_.barrier();
      Value number = vectorNumber(i), isFirst = kernel_.equal(rowInBlock_, 0);
      kernel_.ifThen(isWhole(i) ? isFirst : kernel_.both(isFirst, kernel_.less(number, division_.vectors)), [&] {
        Values slots;
        for (int64_t slot = 0; slot < rowsPerBlock_; ++slot)
          slots.push_back(kernel_.load(sharedBand_, element, placeOf(kernel_.integer(slot)), 1, {lanes, lanes}, lanes));
        Value total = reducer_.combine(op, reducer_.combine(op, slots[0], slots[1]), reducer_.combine(op, slots[2], slots[3]));
        Value offset = kernel_.add(place, kernel_.multiply(number, lanes));
        kernel_.store(frame_.results[result], elementOf(result), offset, total, {lanes, lanes}, lanes);
      });
    }
  }

  /// The indices of vector `number` of the row with these kept indices.
  Values indicesOf(Value number, ArrayRef<Value> kept) {
    Values reduced = kernel_.delinearize(number, pieces_);
    Value lane = kernel_.multiply(reduced.pop_back_val(), division_.lanes);
    return mergeIndices(space_, kept, reduced, lane);
  }
  Values indicesOf(Value number) { return indicesOf(number, kept_); }
  Value vectorNumber(int64_t i) { return kernel_.add(firstVector_, kernel_.integer(i * division_.threads)); }
  /// Only the last vectors of the threads can be beyond the row's end: they then take the last one once more.
  bool isWhole(int64_t i) const {
    bool isAllOfRow = division_.perThread * division_.threads >= division_.vectors; // else several blocks share it
    return isAllOfRow ? (i + 1) * division_.threads <= division_.vectors : division_.vectors % division_.threads == 0;
  }
  Value clamp(Value number, bool whole) {
    return whole ? number : kernel_.minimum(number, kernel_.integer(division_.vectors - 1));
  }

  /// The pass's values at one vector of the row.
  Values emit(RowPass &pass, Value number, bool whole, KnownValues *known) {
    return pass.expression->emit(kernel_, indicesOf(clamp(number, whole)), {division_.lanes, division_.lanes}, known);
  }

  /// Of a long row: what several passes read, as far as shared memory goes.
  void chooseStaged() {
    struct Read {
      BlockArgument argument;
      View view;
      SmallVector<const RowPass *> passes;
    };
    SmallVector<Read> reads;
    for (RowPass *pass : plan_.passes()) {
      if (pass == &plan_.rows())
        continue; // has no vectors
      for (auto [argument, view] : pass->expression->accesses()) {
        auto isSame = [&, argument = argument, view = view](const Read &read) {
          return read.argument == argument && read.view.offset == view.offset && read.view.strides == view.strides;
        };
        if (auto read = llvm::find_if(reads, isSame); read != reads.end())
          read->passes.push_back(pass);
        else if (tape::elementCount(argument.getType()) == space_.elementCount() &&
                 StagedRows::canStage(view, division_.lanes))
          reads.push_back({argument, view, {pass}});
      }
    }
    int64_t elements = division_.vectors * division_.lanes, left = kDynamicSharedBytes;
    for (const Read &read : reads) {
      int64_t bytes = llvm::alignTo(elements * tape::elementBytes(tape::elementOf(read.argument)), 16);
      if (read.passes.size() == 1 || bytes > left)
        continue;
      left -= bytes;
      staged_.add(read.argument, read.view, read.passes, elements);
    }
  }

  /// Starts to copy vectors of the row with these kept indices.
  void copyVectors(const RowPass *lastReader, ArrayRef<Value> numbers, bool whole, ArrayRef<Value> kept) {
    SmallVector<StagedRows::Vector> vectors;
    for (Value number : numbers)
      vectors.push_back({indicesOf(number, kept), kernel_.multiply(number, division_.lanes)});
    auto copy = [&] { staged_.copy(lastReader, vectors); };
    whole ? copy() : kernel_.ifThen(kernel_.less(numbers.front(), division_.vectors), copy);
  }
  /// All that is staged of a row.
  void copyRow(Value row) {
    Values kept = kernel_.delinearize(row, space_.extents(false));
    forEachGroup({}, [&](Values none, ArrayRef<Value> numbers, bool whole) {
      copyVectors(nullptr, numbers, whole, kept);
      return none;
    });
  }

  /// The pass's values at vectors of a long row, over which those of the next row are copied if nobody needs them any more.
  /// Each thread reads only what it has copied: beyond the row's end its first vector once more.
  SmallVector<Values> emitGroup(RowPass &pass, ArrayRef<Value> numbers, bool whole) {
    SmallVector<Values> values;
    for (Value number : numbers) {
      KnownValues known;
      Value inside = whole ? number : kernel_.select(kernel_.less(number, division_.vectors), number, inRow_);
      staged_.read(pass, kernel_.multiply(inside, division_.lanes), known);
      values.push_back(emit(pass, inside, /*whole=*/true, &known));
    }
    if (staged_.isLastReader(pass))
      kernel_.ifThen(hasNext_, [&] { copyVectors(&pass, numbers, whole, nextKept_); });
    return values;
  }

  Values accumulate(RowPass &pass, Values partial, Value number, bool whole, Values values) {
    for (auto [into, op, value] : llvm::zip_equal(partial, pass.reductions, values)) {
      if (!whole)
        value = kernel_.select(kernel_.less(number, division_.vectors), value, reducer_.neutral(op));
      into = reducer_.combine(op, into, value);
    }
    return partial;
  }

  /// One value for each reduction of the pass, the same in all threads of the row.
  Values reduce(RowPass &pass) {
    Values partial = reducer_.neutrals(pass.reductions, 1);
    if (division_.resident) {
      for (int64_t i = 0; i < division_.perThread; ++i) {
        Value number = vectorNumber(i);
        partial = accumulate(pass, partial, number, isWhole(i), emit(pass, number, isWhole(i), &known_[i]));
      }
    } else {
      partial = forEachGroup(partial, [&](Values sums, ArrayRef<Value> numbers, bool whole) {
        for (auto [number, vector] : llvm::zip_equal(numbers, emitGroup(pass, numbers, whole)))
          sums = accumulate(pass, sums, number, whole, vector);
        return sums;
      });
    }
    Values totals;
    for (auto [op, value] : llvm::zip_equal(pass.reductions, partial))
      totals.push_back(combineRow(op, value));
    return exchangeWarps(pass, totals);
  }

  /// Over a long row: a few vectors of each thread at a time, then what is left, of which not every thread has the last one.
  Values forEachGroup(Values carried, llvm::function_ref<Values(Values, ArrayRef<Value>, bool)> body) {
    int64_t inFlight = division_.inFlight(/*fromShared=*/!staged_.empty());
    int64_t step = inFlight * division_.threads, whole = division_.vectors / step * step;
    auto group = [&](Value first, int64_t count, bool isWhole, Values in) {
      Values numbers;
      for (int64_t i = 0; i < count; ++i)
        numbers.push_back(kernel_.add(first, kernel_.integer(i * division_.threads)));
      return body(in, numbers, isWhole);
    };
    if (whole > 0)
      carried = kernel_.loop(kernel_.integer(0), kernel_.integer(whole), step, carried, [&](Value from, Values in) {
        return group(kernel_.add(from, inRow_), inFlight, true, in);
      });
    if (int64_t left = (division_.vectors - whole) / division_.threads) {
      carried = group(kernel_.add(kernel_.integer(whole), inRow_), left, true, carried);
      whole += left * division_.threads;
    }
    if (whole < division_.vectors)
      carried = group(kernel_.add(kernel_.integer(whole), inRow_), 1, false, carried);
    return carried;
  }

  /// The lanes of a vector, then the threads of a warp that belong to the row.
  Value combineRow(tape::ReduceOp op, Value vector) {
    auto combine = [&](Value a, Value b) { return reducer_.combine(op, a, b); };
    unsigned width = std::min<int64_t>(division_.threads, kWarp);
    return kernel_.combineThreads(kernel_.combineLanes(vector, combine), width, combine);
  }

  /// Memory for the totals of each warp: outside of loops, where the kernel's function is known.
  void makeExchanges() {
    if (int64_t warps = division_.threads / kWarp; warps > 1)
      for (RowPass &pass : plan_.levels())
        for (tape::ReduceOp op : pass.reductions)
          exchanges_[&pass].push_back(
              kernel_.sharedArray(tape::computeType(tape::elementOf(op.getOperand())), warps * rowsPerBlock_));
  }

  /// The warps of a row by shared memory: every warp combines the totals of all in the same order.
  Values exchangeWarps(RowPass &pass, Values totals) {
    int64_t warps = division_.threads / kWarp;
    if (warps <= 1)
      return totals;
    Value inWarp = kernel_.remainder(inRow_, kWarp), warp = kernel_.divide(inRow_, kWarp);
    Value first = kernel_.multiply(rowInBlock_, warps);
    Values &arrays = exchanges_[&pass];
    kernel_.ifThen(kernel_.equal(inWarp, 0), [&] {
      for (auto [array, total] : llvm::zip_equal(arrays, totals))
        kernel_.store(array, total.getType(), kernel_.add(first, warp), total, {1, 1});
    });
    kernel_.barrier();
    Value place = kernel_.add(first, kernel_.remainder(inWarp, warps));
    for (auto [array, total, op] : llvm::zip_equal(arrays, totals, pass.reductions)) {
      auto combine = [&, op = op](Value a, Value b) { return reducer_.combine(op, a, b); };
      total = kernel_.combineThreads(kernel_.load(array, total.getType(), place, 1, {1, 1}), warps, combine);
    }
    return totals;
  }

  void provide(tape::ReduceOp op, Value total) {
    total = kernel_.round(total, tape::elementOf(op.getResult()));
    Value lanes = kernel_.splat(total, division_.lanes);
    for (RowPass *pass : plan_.passes())
      pass->expression->provide(op.getResult(), pass == &plan_.rows() ? total : lanes);
  }

  void ifRow(Value condition, llvm::function_ref<void()> body) {
    if (hasRow_)
      condition = condition ? kernel_.both(condition, hasRow_) : hasRow_;
    condition ? kernel_.ifThen(condition, body) : body();
  }

  Type elementOf(unsigned result) const { return tape::elementOf(frame_.terminator()->getOperand(result)); }

  void store(Value number, bool whole, ArrayRef<Value> values) {
    unsigned lanes = division_.lanes;
    Value inside = whole ? Value() : kernel_.less(number, division_.vectors);
    Value offset = kernel_.linear(0, space_.rowMajor().strides, indicesOf(number));
    ifRow(inside, [&] {
      for (auto [result, value] : llvm::zip_equal(plan_.elements().results, values))
        kernel_.store(frame_.results[result], elementOf(result), offset, value, {lanes, lanes}, lanes);
    });
  }

  void storeElements() {
    RowPass &pass = plan_.elements();
    if (!division_.resident) {
      forEachGroup({}, [&](Values none, ArrayRef<Value> numbers, bool whole) {
        for (auto [number, vector] : llvm::zip_equal(numbers, emitGroup(pass, numbers, whole)))
          store(number, whole, vector);
        return none;
      });
      return;
    }
    SmallVector<Values> values; // before any store: a result may be written over an operand
    for (int64_t i = 0; i < division_.perThread; ++i)
      values.push_back(emit(pass, vectorNumber(i), isWhole(i), &known_[i]));
    for (int64_t i = 0; i < division_.perThread; ++i)
      store(vectorNumber(i), isWhole(i), values[i]);
  }

  void storeRow() {
    RowPass &pass = plan_.rows();
    Values none(pieces_.size() - 1, kernel_.integer(0));
    Values values = pass.expression->emit(kernel_, mergeIndices(space_, kept_, none, kernel_.integer(0)), {1, 1});
    ifRow(kernel_.equal(firstVector_, 0), [&] {
      for (auto [result, value] : llvm::zip_equal(pass.results, values))
        kernel_.store(frame_.results[result], elementOf(result), row_, value, {1, 1});
    });
  }

  CudaKernelBuilder &kernel_;
  const CudaFrame &frame_;
  RowPlan &plan_;
  const IterationSpace &space_;
  Division division_;
  Reducer reducer_;
  StagedRows staged_;
  int64_t rowsPerBlock_; // that are worked on at a time
  SmallVector<int64_t> pieces_; // extents of the reduced dimensions, the last one in vectors
  Value row_, rowInBlock_, inRow_, hasRow_, firstVector_;
  Value sharedBand_; // a vector of each thread
  Values kept_, nextKept_; // indices of the row and of the one after it in turn
  Value hasNext_;
  std::vector<KnownValues> known_; // of each resident vector
  std::map<const RowPass *, Values> exchanges_; // of each reduction
};

} // namespace

FailureOr<LaunchShape> buildRows(CudaKernelBuilder &kernel, const CudaFrame &frame) {
  FailureOr<RowPlan> plan = RowPlan::make(frame.region);
  if (failed(plan))
    return failure();
  unsigned lanes = chooseLanes(frame.region, plan->space().laneExtent(), 8);
  bool onlyBands = plan->bandShape() && plan->levels().empty();
  Division division = onlyBands ? Division::ofElements(lanes, plan->rowLength())
                                : Division(lanes, plan->rowLength(), plan->rowCount());
  return RowKernel(kernel, frame, *plan, division).emit();
}

} // namespace tapeout::codegen
