#include "runtime/device/cpu/Gemm.h"

#include "runtime/device/cpu/GemmTile.h"

#include <algorithm>
#include <cassert>
#include <cstdlib>
#include <span>
#include <string>
#include <utility>

namespace tapeout::rt {

// --- Checks ---

namespace {

struct Axis {
  int64_t extent, stride;
};

constexpr int64_t largestOffset = INT64_MAX / sizeof(float);

Status bad(const std::string &what) {
  return Status::error(ExitCode::BadData, "the matrix product " + what + "; recompile the model");
}

Status verifyOperand(const char *name, std::span<const Axis> axes) {
  int64_t sum = 0;
  for (Axis axis : axes) {
    if (axis.extent < 1)
      return bad("has an extent of " + std::to_string(axis.extent) + " where at least 1 is needed");
    if (axis.stride < 0)
      return bad(std::string("has a negative stride in operand ") + name);
    int64_t offset;
    if (axis.extent > largestOffset || __builtin_mul_overflow(axis.extent - 1, axis.stride, &offset) ||
        __builtin_add_overflow(sum, offset, &sum) || sum > largestOffset)
      return bad(std::string("reaches beyond the address space in operand ") + name);
  }
  return Status::ok();
}

/// Each axis must step over everything that the axes of smaller stride reach.
Status verifyDistinctElements(std::span<Axis> axes) {
  std::sort(axes.begin(), axes.end(), [](Axis x, Axis y) { return x.stride < y.stride; });
  int64_t reach = 0;
  for (Axis axis : axes) {
    if (axis.extent == 1)
      continue;
    if (axis.stride <= reach)
      return bad("writes elements of its result more than once");
    reach += (axis.extent - 1) * axis.stride;
  }
  return Status::ok();
}

} // namespace

Status verifyGemm(const GemmProblem &problem) {
  if (problem.batchDims < 0 || problem.batchDims > maxGemmBatchDims)
    return bad("has " + std::to_string(problem.batchDims) + " batch dimensions where at most " +
               std::to_string(maxGemmBatchDims) + " are possible");

  if (problem.triangle > GemmTriangle::ATransposed)
    return bad("has an unknown triangle");
  if (problem.triangle != GemmTriangle::None && problem.m != (problem.triangle == GemmTriangle::Result ? problem.n : problem.k))
    return bad("has a triangle that is not square");
  if (problem.triangle == GemmTriangle::Result && problem.accumulate)
    return bad("adds to a triangle");

  using Axes = std::array<Axis, maxGemmBatchDims + 2>;
  Axes a = {{{problem.m, problem.aRowStride}, {problem.k, problem.aColumnStride}}};
  Axes b = {{{problem.k, problem.bRowStride}, {problem.n, problem.bColumnStride}}};
  Axes c = {{{problem.m, problem.cRowStride}, {problem.n, problem.cColumnStride}}};
  size_t count = 2;
  for (int d = 0; d < problem.batchDims; ++d, ++count) {
    const GemmBatchDim &dim = problem.batch[d];
    a[count] = {dim.extent, dim.aStride};
    b[count] = {dim.extent, dim.bStride};
    c[count] = {dim.extent, dim.cStride};
  }
  TAPEOUT_RETURN_IF_ERROR(verifyOperand("a", std::span(a).first(count)));
  TAPEOUT_RETURN_IF_ERROR(verifyOperand("b", std::span(b).first(count)));
  TAPEOUT_RETURN_IF_ERROR(verifyOperand("c", std::span(c).first(count)));
  return verifyDistinctElements(std::span(c).first(count));
}

// --- Workspace ---

static constexpr int64_t floatsPerThread = packedAFloats + packedBFloats;
static constexpr int64_t partialFloats = int64_t(1) << 18; // 1 MiB, for a second thread

int64_t gemmWorkspaceBytes(int threads) {
  return (threads * floatsPerThread + (threads > 1 ? partialFloats : 0)) * static_cast<int64_t>(sizeof(float));
}

Result<GemmWorkspace> GemmWorkspace::create(int threads) {
  assert(threads >= 1);
  GemmWorkspace workspace;
  workspace.threads_ = threads;
  int64_t bytes = gemmWorkspaceBytes(threads);
  workspace.queues_ = TileQueues(threads);
  workspace.memory_.reset(static_cast<float *>(std::aligned_alloc(64, bytes)));
  if (!workspace.memory_)
    return Status::error(ExitCode::Unavailable, "there is no memory for the " + std::to_string(bytes) +
                                                    " bytes of the matrix product's workspace; use fewer threads");
  return workspace;
}

float *GemmWorkspace::ofThread(int64_t thread) const { return memory_.get() + thread * floatsPerThread; }
float *GemmWorkspace::partial() const { return ofThread(threads_); }

void GemmWorkspace::Free::operator()(float *memory) const { std::free(memory); }

// --- Who computes which tile ---

TileQueues::TileQueues(int threads) : queues_(std::make_unique<Queue[]>(threads)) {}

void TileQueues::deal(int64_t tiles, int64_t queues) {
  count_ = queues;
  for (int64_t q = 0; q < queues; ++q) {
    queues_[q].next.store(tiles * q / queues, std::memory_order_relaxed);
    queues_[q].end = tiles * (q + 1) / queues;
  }
}

std::optional<int64_t> TileQueues::take(int64_t own) {
  for (int64_t i = 0; i < count_; ++i) {
    Queue &queue = queues_[(own + i) % count_];
    int64_t tile = queue.next.fetch_add(1, std::memory_order_relaxed);
    if (tile < queue.end)
      return tile;
  }
  return std::nullopt;
}

// --- The product as a list of tiles ---

namespace {

constexpr int64_t divideUp(int64_t x, int64_t y) { return (x + y - 1) / y; }

/// Whether to compute the transpose, c' = b' a', instead: the kernels want the columns of c contiguous, and many.
bool betterTransposed(const GemmProblem &problem) {
  if (problem.triangle != GemmTriangle::None) // it speaks of the rows of a
    return false;
  if (problem.n == 1 || problem.m == 1)
    return problem.n == 1 && problem.m > 1;
  return problem.cColumnStride != 1 && problem.cRowStride == 1;
}

void transpose(GemmProblem &problem, const float *&a, const float *&b) {
  std::swap(a, b);
  std::swap(problem.m, problem.n);
  std::swap(problem.aRowStride, problem.bColumnStride);
  std::swap(problem.aColumnStride, problem.bRowStride);
  std::swap(problem.cRowStride, problem.cColumnStride);
  for (GemmBatchDim &dim : problem.batch)
    std::swap(dim.aStride, dim.bStride);
}

/// One of the extents of c cut into equal pieces.
struct Cut {
  int64_t extent, step, length; // pieces are multiples of step long, but the last

  int64_t pieces() const { return divideUp(extent, length); }
  bool canHalve() const { return length > step; }
  void halve() { length = divideUp(divideUp(length, 2), step) * step; }
};

Cut cutEvenly(int64_t extent, int64_t step, int64_t longest) {
  int64_t length = divideUp(extent, divideUp(extent, longest));
  return {extent, step, divideUp(length, step) * step};
}

// Smallest sides of a tile, and the multiply-adds (a few microseconds) below which another thread does not pay.
constexpr int64_t rowStep = 48;
constexpr int64_t columnStep = 64;
constexpr double workPerThread = 1 << 18;
constexpr int64_t tilesPerThread = 4;
constexpr int64_t splitTilesPerThread = 1; // of each block of k
constexpr int64_t manyRows = 384;

/// Whether threads could take different blocks of k of all tiles, not different tiles: the product of a weight's gradient has a
/// small result and long operands, of whose rows each thread has written its own.
bool hasLongDepth(const GemmProblem &problem) {
  return problem.batchDims == 0 && problem.aRowStride == 1 && problem.cColumnStride == 1 &&
         problem.triangle == GemmTriangle::None && divideUp(problem.k, maxBlockDepth) == 2 &&
         problem.m * problem.n <= partialFloats;
}

/// The tiles of a product in a fixed order, row by row. No element of c depends on how it is cut: only k blocks decide its bits.
class Tiling {
public:
  Tiling(const GemmProblem &problem, int threads, bool maySplitDepth)
      : problem_(problem), rows_(cutEvenly(problem.m, rowStep, maxTileRows)),
        columns_(cutEvenly(problem.n, columnStep, maxTileColumns)) {
    for (int d = 0; d < problem.batchDims; ++d)
      batches_ *= problem.batch[d].extent;
    double work = static_cast<double>(batches_) * problem.m * problem.n * problem.k;
    slots_ = static_cast<int64_t>(std::clamp<double>(work / workPerThread, 1, threads));
    splitsDepth_ = maySplitDepth && slots_ > 1 && hasLongDepth(problem);
    const int64_t wanted = slots_ * (splitsDepth_ ? splitTilesPerThread : tilesPerThread);
    while (slots_ > 1 && count() < wanted && (rows_.canHalve() || columns_.canHalve())) {
      // Rows of its own for each thread come first, where they are many: they are in its cache already. Then, a cut of the
      // columns copies a twice, a cut of the rows b; copying b costs more where it is transposed.
      bool ownRows = batches_ * rows_.pieces() < slots_ && rows_.length >= manyRows;
      bool preferColumns = !ownRows && (problem.bColumnStride != 1 || columns_.length >= rows_.length);
      (columns_.canHalve() && (preferColumns || !rows_.canHalve()) ? columns_ : rows_).halve();
    }
    slots_ = std::min(slots_, count());
  }

  int64_t count() const { return batches_ * rows_.pieces() * columns_.pieces(); }
  int64_t slots() const { return slots_; } // threads that have something to do
  bool splitsDepth() const { return splitsDepth_; }

  /// Of the one matrix of a product without batch dimensions.
  GemmPiece piece(int64_t index) const {
    int64_t row = index / columns_.pieces() * rows_.length, column = index % columns_.pieces() * columns_.length;
    return {row, std::min(rows_.length, problem_.m - row), column, std::min(columns_.length, problem_.n - column)};
  }

  GemmTile tile(int64_t index, const float *a, const float *b, float *c) const {
    int64_t j = index % columns_.pieces() * columns_.length;
    index /= columns_.pieces();
    int64_t i = index % rows_.pieces() * rows_.length;
    index /= rows_.pieces();
    for (int d = problem_.batchDims - 1; d >= 0; --d) {
      const GemmBatchDim &dim = problem_.batch[d];
      int64_t position = index % dim.extent;
      index /= dim.extent;
      a += position * dim.aStride;
      b += position * dim.bStride;
      c += position * dim.cStride;
    }
    GemmTile tile = {};
    tile.rows = std::min(rows_.length, problem_.m - i);
    tile.columns = std::min(columns_.length, problem_.n - j);
    tile.k = problem_.k;
    tile.a = a + i * problem_.aRowStride;
    tile.aRowStride = problem_.aRowStride;
    tile.aColumnStride = problem_.aColumnStride;
    tile.b = b + j * problem_.bColumnStride;
    tile.bRowStride = problem_.bRowStride;
    tile.bColumnStride = problem_.bColumnStride;
    tile.c = c + i * problem_.cRowStride + j * problem_.cColumnStride;
    tile.cRowStride = problem_.cRowStride;
    tile.cColumnStride = problem_.cColumnStride;
    tile.accumulate = problem_.accumulate;
    tile.triangle = problem_.triangle;
    tile.firstRow = i;
    tile.firstColumn = j;
    return tile;
  }

private:
  const GemmProblem &problem_;
  Cut rows_, columns_;
  int64_t batches_ = 1, slots_ = 1;
  bool splitsDepth_ = false;
};

} // namespace

void gemm(const GemmProblem &given, const float *a, const float *b, float *c, CpuIsa isa, ThreadPool &pool,
          GemmWorkspace &workspace, FunctionRef<void(GemmPiece)> finish) {
  GemmProblem problem = given;
  assert(!finish || (problem.batchDims == 0 && problem.cColumnStride == 1 && problem.m > 1 && problem.n > 1));
  if (betterTransposed(problem))
    transpose(problem, a, b);

  Tiling tiling(problem, std::min(pool.threads(), workspace.threads()), !finish);
  // Tiles of the second block are dealt behind those of the first; they go to a buffer and are added at the end, as always.
  const bool split = tiling.splitsDepth();
  const int64_t firstDepth = divideUp(divideUp(problem.k, 2), 8) * 8;
  auto runTile = [&](int64_t index, float *memory) {
    const bool second = index >= tiling.count();
    GemmTile tile = tiling.tile(second ? index - tiling.count() : index, a, b, c);
    if (second) {
      tile.a += firstDepth * tile.aColumnStride;
      tile.b += firstDepth * tile.bRowStride;
      tile.c = workspace.partial() + tile.firstRow * problem.n + tile.firstColumn;
      tile.cRowStride = problem.n;
      tile.accumulate = false;
    }
    if (split)
      tile.k = second ? problem.k - firstDepth : firstDepth;
    tile.packedA = memory;
    tile.packedB = memory + packedAFloats;
    isa == CpuIsa::Avx512 ? gemmTileAvx512(tile) : gemmTileAvx2(tile);
    if (finish)
      finish(tiling.piece(index));
  };
  TileQueues &queues = workspace.queues();
  queues.deal(tiling.count() * (split ? 2 : 1), tiling.slots());
  pool.parallelFor(tiling.slots(), 1, [&](int64_t slot, int64_t) {
    while (std::optional<int64_t> index = queues.take(slot))
      runTile(*index, workspace.ofThread(slot));
  });
  if (split)
    pool.parallelFor(problem.m, rowStep, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i)
        for (int64_t j = 0; j < problem.n; ++j)
          c[i * problem.cRowStride + j] += workspace.partial()[i * problem.n + j];
    });
}

} // namespace tapeout::rt
