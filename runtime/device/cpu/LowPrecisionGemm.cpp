#include "runtime/device/cpu/LowPrecisionGemm.h"

#include "runtime/base/BFloat16.h"
#include "runtime/device/cpu/GemmTile.h"

#include <algorithm>
#include <cassert>
#include <cstdlib>
#include <string>

namespace tapeout::rt {
namespace {

// A tile of c, small enough that its sums and the blocks of its operands stay in the cache.
constexpr int64_t kRows = 96, kColumns = 192; // columns: whole units of an epilogue
constexpr int64_t kAFloats = kRows * maxBlockDepth, kBFloats = maxBlockDepth * kColumns, kCFloats = kRows * kColumns;
constexpr int64_t kFloatsPerThread = kAFloats + kBFloats + kCFloats;

constexpr int64_t divideUp(int64_t x, int64_t y) { return (x + y - 1) / y; }

/// A matrix in memory: element (i, j) at offset + i * rowStride + j * columnStride.
struct Place {
  int64_t offset, rowStride, columnStride;
};

struct BFloat16 {
  using Bits = uint16_t;
  static float widen(Bits bits) { return bfloat16ToFloat(bits); }
  static Bits round(float value) { return floatToBfloat16(value); }
};
struct Half {
  using Bits = uint16_t;
  static float widen(Bits bits) { return halfToFloat(bits); }
  static Bits round(float value) { return floatToHalf(value); }
};
struct Float {
  using Bits = float;
  static float widen(Bits value) { return value; }
  static Bits round(float value) { return value; }
};

/// Calls visit with the type's conversions.
template <typename Visit> void withType(ElementType type, const Visit &visit) {
  if (type == ElementType::BF16)
    visit(BFloat16());
  else if (type == ElementType::F16)
    visit(Half());
  else
    visit(Float());
}

/// `target`: contiguous rows.
void widen(ElementType type, const void *memory, Place from, int64_t rows, int64_t columns, float *target) {
  withType(type, [&](auto conversion) {
    const auto *source = static_cast<const typename decltype(conversion)::Bits *>(memory) + from.offset;
    for (int64_t i = 0; i < rows; ++i)
      for (int64_t j = 0; j < columns; ++j)
        target[i * columns + j] = conversion.widen(source[i * from.rowStride + j * from.columnStride]);
  });
}

void round(ElementType type, const float *source, Place to, int64_t rows, int64_t columns, void *memory) {
  withType(type, [&](auto conversion) {
    auto *target = static_cast<typename decltype(conversion)::Bits *>(memory) + to.offset;
    for (int64_t i = 0; i < rows; ++i)
      for (int64_t j = 0; j < columns; ++j)
        target[i * to.rowStride + j * to.columnStride] = conversion.round(source[i * columns + j]);
  });
}

/// One tile of one product of the batch.
struct Tile {
  GemmPiece piece;
  Place a, b, c; // of the tile's rows and columns
};

class Tiles {
public:
  explicit Tiles(const GemmProblem &problem)
      : problem_(problem), rows_(divideUp(problem.m, kRows)), columns_(divideUp(problem.n, kColumns)) {
    for (int d = 0; d < problem.batchDims; ++d)
      batches_ *= problem.batch[d].extent;
  }
  int64_t count() const { return batches_ * rows_ * columns_; }

  Tile tile(int64_t index) const {
    int64_t row = index % rows_ * kRows, column = index / rows_ % columns_ * kColumns;
    int64_t batch = index / rows_ / columns_, a = 0, b = 0, c = 0;
    for (int d = problem_.batchDims - 1; d >= 0; --d) {
      const GemmBatchDim &dim = problem_.batch[d];
      int64_t position = batch % dim.extent;
      batch /= dim.extent;
      a += position * dim.aStride;
      b += position * dim.bStride;
      c += position * dim.cStride;
    }
    const GemmProblem &p = problem_;
    return {{row, std::min(kRows, p.m - row), column, std::min(kColumns, p.n - column)},
            {a + row * p.aRowStride, p.aRowStride, p.aColumnStride},
            {b + column * p.bColumnStride, p.bRowStride, p.bColumnStride},
            {c + row * p.cRowStride + column * p.cColumnStride, p.cRowStride, p.cColumnStride}};
  }

private:
  const GemmProblem &problem_;
  int64_t rows_, columns_, batches_ = 1;
};

} // namespace

Result<GemmStaging> GemmStaging::create(int threads) {
  assert(threads >= 1);
  GemmStaging staging;
  staging.threads_ = threads;
  size_t bytes = threads * kFloatsPerThread * sizeof(float);
  staging.memory_.reset(static_cast<float *>(std::aligned_alloc(64, bytes)));
  if (!staging.memory_)
    return Status::error(ExitCode::Unavailable, "there is no memory for the " + std::to_string(bytes) +
                                                    " bytes of the low-precision products; use fewer threads");
  return staging;
}

float *GemmStaging::ofThread(int64_t thread) const { return memory_.get() + thread * kFloatsPerThread; }

void GemmStaging::Free::operator()(float *memory) const { std::free(memory); }

void lowPrecisionGemm(const GemmProblem &problem, GemmTypes types, const void *a, const void *b, void *c, CpuIsa isa,
                      ThreadPool &pool, GemmWorkspace &workspace, GemmStaging &staging,
                      FunctionRef<void(GemmPiece)> finish) {
  // The same blocks of k as in GemmKernel.h: they decide the bits.
  int64_t blocks = divideUp(problem.k, maxBlockDepth), depth = divideUp(divideUp(problem.k, blocks), 8) * 8;
  auto compute = [&](const Tile &tile, int64_t thread) {
    float *blockA = staging.ofThread(thread), *blockB = blockA + kAFloats, *sums = blockB + kBFloats;
    auto [row, rows, column, columns] = tile.piece;
    if (problem.accumulate)
      widen(types.result, c, tile.c, rows, columns, sums);
    for (int64_t p = 0; p < problem.k; p += depth) {
      int64_t length = std::min(depth, problem.k - p);
      Place fromA = tile.a, fromB = tile.b;
      fromA.offset += p * problem.aColumnStride;
      fromB.offset += p * problem.bRowStride;
      widen(types.operand, a, fromA, rows, length, blockA);
      widen(types.operand, b, fromB, length, columns, blockB);
      float *packed = workspace.ofThread(thread);
      GemmTile product{.rows = rows, .columns = columns, .k = length, .a = blockA, .aRowStride = length, .aColumnStride = 1,
                       .b = blockB, .bRowStride = columns, .bColumnStride = 1, .c = sums, .cRowStride = columns,
                       .cColumnStride = 1, .accumulate = p > 0 || problem.accumulate, .packedA = packed,
                       .packedB = packed + packedAFloats};
      isa == CpuIsa::Avx512 ? gemmTileAvx512(product) : gemmTileAvx2(product);
    }
    round(types.result, sums, tile.c, rows, columns, c);
    if (finish)
      finish(tile.piece);
  };

  Tiles tiles(problem);
  int64_t slots = std::min<int64_t>({pool.threads(), workspace.threads(), staging.threads(), tiles.count()});
  pool.parallelFor(slots, 1, [&](int64_t begin, int64_t end) {
    for (int64_t slot = begin; slot < end; ++slot)
      for (int64_t index = slot; index < tiles.count(); index += slots)
        compute(tiles.tile(index), slot);
  });
}

} // namespace tapeout::rt
