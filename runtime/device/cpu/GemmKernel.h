// The matrix product of one tile, written once for both instruction sets. Included by GemmAvx2.cpp and GemmAvx512.cpp
// only, each compiled for its own instruction set.
//
// Everything here is in an unnamed namespace and calls nothing of the standard library: an inline function shared with
// other files could be compiled with AVX-512 here and then be linked into code that must run without it.
#pragma once

#include "runtime/device/cpu/GemmTile.h"

#include <immintrin.h>

namespace tapeout::rt {
namespace {

constexpr int64_t smaller(int64_t x, int64_t y) { return x < y ? x : y; }
constexpr int64_t divideUp(int64_t x, int64_t y) { return (x + y - 1) / y; }

/// One call of the micro-kernel: a few rows by a panel of columns over one k block.
template <typename Isa> struct Micro {
  int64_t k;
  const float *a;
  int64_t aRowStride, aColumnStride;
  const float *b; // rows of contiguous columns
  int64_t bRowStride;
  float *c;
  int64_t cRowStride;
  typename Isa::Mask lastMask; // lanes of the last vector that exist
  bool add;
};

/// c[Rows, Vectors * width] (+)= a[Rows, k] * b[k, ...], the product held in registers. Masked: the last vector is
/// partial.
template <typename Isa, int Rows, int Vectors, bool Masked> void multiply(const Micro<Isa> &call) {
  using Vector = typename Isa::Vector;
  Vector sum[Rows][Vectors];
#pragma GCC unroll 16
  for (int i = 0; i < Rows; ++i)
#pragma GCC unroll 4
    for (int v = 0; v < Vectors; ++v)
      sum[i][v] = Isa::zero();

  // One pointer per three rows: the other two are reached by scaled indexing, which leaves enough registers.
  constexpr int groups = (Rows + 2) / 3;
  const int64_t aRowStride = call.aRowStride, aColumnStride = call.aColumnStride, bRowStride = call.bRowStride;
  const float *a[groups];
#pragma GCC unroll 16
  for (int g = 0; g < groups; ++g)
    a[g] = call.a + 3 * g * aRowStride;
  const float *b = call.b;
  const auto mask = call.lastMask;

  for (int64_t p = call.k; p > 0; --p) {
    Vector right[Vectors];
#pragma GCC unroll 4
    for (int v = 0; v < Vectors; ++v)
      right[v] = Masked && v == Vectors - 1 ? Isa::load(b + v * Isa::width, mask) : Isa::load(b + v * Isa::width);
#pragma GCC unroll 16
    for (int i = 0; i < Rows; ++i) {
      Vector left = Isa::broadcast(a[i / 3] + (i % 3) * aRowStride);
#pragma GCC unroll 4
      for (int v = 0; v < Vectors; ++v)
        sum[i][v] = Isa::multiplyAdd(left, right[v], sum[i][v]);
    }
#pragma GCC unroll 16
    for (int g = 0; g < groups; ++g)
      a[g] += aColumnStride;
    b += bRowStride;
  }

  float *c = call.c;
  const int64_t cRowStride = call.cRowStride;
  const bool add = call.add;
#pragma GCC unroll 16
  for (int i = 0; i < Rows; ++i) {
#pragma GCC unroll 4
    for (int v = 0; v < Vectors; ++v) {
      float *target = c + v * Isa::width;
      if (Masked && v == Vectors - 1)
        Isa::store(target, mask, add ? Isa::add(Isa::load(target, mask), sum[i][v]) : sum[i][v]);
      else
        Isa::store(target, add ? Isa::add(Isa::load(target), sum[i][v]) : sum[i][v]);
    }
    c += cRowStride;
  }
}

template <typename Isa> using MicroKernel = void (*)(const Micro<Isa> &);

/// The micro-kernels of one panel width, by rows and maskedness.
template <typename Isa, int Vectors, int MaxRows> struct KernelTable {
  MicroKernel<Isa> entry[MaxRows + 1][2] = {};

  constexpr KernelTable() { fill<MaxRows>(); }
  template <int Rows> constexpr void fill() {
    entry[Rows][0] = multiply<Isa, Rows, Vectors, false>;
    entry[Rows][1] = multiply<Isa, Rows, Vectors, true>;
    if constexpr (Rows > 1)
      fill<Rows - 1>();
  }
};

template <typename Isa> struct Kernels {
  static constexpr KernelTable<Isa, 1, Isa::rowsOfTwo> one = {};
  static constexpr KernelTable<Isa, 2, Isa::rowsOfTwo> two = {};
  static constexpr KernelTable<Isa, 4, Isa::rowsOfFour> four = {}; // for products of few rows: enough independent sums

  static MicroKernel<Isa> find(int64_t vectors, int64_t rows, bool masked) {
    return vectors == 1 ? one.entry[rows][masked] : vectors == 2 ? two.entry[rows][masked] : four.entry[rows][masked];
  }
};

/// target[p, j] = source[j, p] for 8 x 8 elements, 4 values of p at a time.
inline void transpose8(const float *source, int64_t sourceStride, float *target, int64_t targetStride) {
#pragma GCC unroll 2
  for (int p = 0; p < 8; p += 4) {
    __m256 row[4]; // rows j and j + 4 of source side by side: inserting from memory needs no shuffle
#pragma GCC unroll 4
    for (int j = 0; j < 4; ++j)
      row[j] = _mm256_insertf128_ps(_mm256_castps128_ps256(_mm_loadu_ps(source + j * sourceStride + p)),
                                    _mm_loadu_ps(source + (j + 4) * sourceStride + p), 1);
    __m256 low01 = _mm256_unpacklo_ps(row[0], row[1]), high01 = _mm256_unpackhi_ps(row[0], row[1]);
    __m256 low23 = _mm256_unpacklo_ps(row[2], row[3]), high23 = _mm256_unpackhi_ps(row[2], row[3]);
    float *to = target + p * targetStride;
    _mm256_storeu_ps(to, _mm256_shuffle_ps(low01, low23, 0x44));
    _mm256_storeu_ps(to + targetStride, _mm256_shuffle_ps(low01, low23, 0xee));
    _mm256_storeu_ps(to + 2 * targetStride, _mm256_shuffle_ps(high01, high23, 0x44));
    _mm256_storeu_ps(to + 3 * targetStride, _mm256_shuffle_ps(high01, high23, 0xee));
  }
}

/// target[i * targetStride + j] = source[i * rowStride + j * columnStride].
inline void copyBlock(const float *source, int64_t rowStride, int64_t columnStride, int64_t rows, int64_t columns,
                      float *target, int64_t targetStride) {
  if (columnStride == 1) {
    for (int64_t i = 0; i < rows; ++i) {
      const float *from = source + i * rowStride;
      float *to = target + i * targetStride;
      int64_t j = 0;
      for (; j + 8 <= columns; j += 8)
        _mm256_storeu_ps(to + j, _mm256_loadu_ps(from + j));
      if (j < columns && columns >= 8) // the rest by a last vector that overlaps
        _mm256_storeu_ps(to + columns - 8, _mm256_loadu_ps(from + columns - 8));
      else
        for (; j < columns; ++j)
          to[j] = from[j];
    }
    return;
  }
  int64_t blockRows = rowStride == 1 ? rows / 8 * 8 : 0, blockColumns = columns / 8 * 8;
  for (int64_t begin = 0; begin < blockRows; begin += 16) // 16 elements: a whole line of the source at once
    for (int64_t j = 0; j < blockColumns; j += 8)
      for (int64_t i = begin; i < smaller(begin + 16, blockRows); i += 8)
        transpose8(source + i + j * columnStride, columnStride, target + i * targetStride + j, targetStride);
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = i < blockRows ? blockColumns : 0; j < columns; ++j)
      target[i * targetStride + j] = source[i * rowStride + j * columnStride];
}

/// Computes one tile. For every k block, in ascending order: for every block of columns: for every few rows: for every
/// panel of columns, one call of the micro-kernel. The few rows of a stay in L1, the block of columns of b in L2.
template <typename Isa> class TileProduct {
public:
  explicit TileProduct(const GemmTile &tile) : tile_(tile) {
    wide_ = tile.rows <= Isa::rowsOfFour;
    rowTiles_ = divideUp(tile.rows, Isa::rowsOfTwo);
    // Few rows use a panel of b while it is still in L1; many rows would have to come from L2 once per panel.
    columnsOfBlock_ = tile.rows <= 8 * Isa::rowsOfTwo ? maxPanelColumns : maxTileColumns;
    packB_ = tile.bColumnStride != 1 || tile.rows > 2 * Isa::rowsOfTwo;
    // Rows whose distance is a multiple of 4 KiB share one set of the L1 cache.
    bool wellPlaced = tile.aColumnStride == 1 && tile.aRowStride % 1024 != 0;
    packA_ = !wellPlaced && tile.columns > 2 * Isa::width;
  }

  void run() {
    // Balanced blocks; their length depends on k alone, since it decides the bits of the result.
    int64_t blocks = divideUp(tile_.k, maxBlockDepth), depth = divideUp(divideUp(tile_.k, blocks), 8) * 8;
    for (int64_t p = 0; p < tile_.k; p += depth)
      for (int64_t j = 0; j < tile_.columns; j += columnsOfBlock_)
        runBlock(p, smaller(depth, tile_.k - p), j, smaller(tile_.columns, j + columnsOfBlock_));
  }

private:
  static constexpr int64_t tilesOfPack = maxPackedRows / Isa::rowsOfTwo;
  struct Panel {
    int64_t vectors, columns;
  };
  Panel panelAt(int64_t j, int64_t end) const {
    int64_t rest = divideUp(end - j, Isa::width), vectors = rest >= 4 && wide_ ? 4 : rest >= 2 ? 2 : 1;
    return {vectors, smaller(vectors * Isa::width, end - j)};
  }

  int64_t firstRow(int64_t rowTile) const {
    int64_t length = tile_.rows / rowTiles_, longer = tile_.rows % rowTiles_;
    return rowTile * length + smaller(rowTile, longer);
  }

  void runBlock(int64_t p, int64_t depth, int64_t begin, int64_t end) {
    const float *b = tile_.b + p * tile_.bRowStride;
    if (packB_) {
      float *packed = tile_.packedB;
      int64_t needed = columnsNeeded(tile_.rows);
      for (int64_t j = begin; j < end && j < needed;) {
        Panel panel = panelAt(j, end);
        int64_t width = panel.vectors * Isa::width;
        copyBlock(b + j * tile_.bColumnStride, tile_.bRowStride, tile_.bColumnStride, depth, panel.columns, packed,
                  width);
        packed += depth * width;
        j += panel.columns;
      }
    }
    for (int64_t rowTile = 0; rowTile < rowTiles_; ++rowTile) {
      int64_t i = firstRow(rowTile), rows = firstRow(rowTile + 1) - i;
      if (packA_ && rowTile % tilesOfPack == 0)
        packRows(rowTile, p, depth);
      Range used = usedDepth(i, rows, p, depth);
      if (used.begin >= used.end)
        continue;
      Micro<Isa> call;
      call.k = used.end - used.begin;
      call.add = tile_.accumulate || hasEarlierBlock(i, p);
      placeA(call, rowTile, p);
      call.a += used.begin * call.aColumnStride;
      int64_t neededColumns = columnsNeeded(i + rows);
      const float *packed = tile_.packedB;
      for (int64_t j = begin; j < end;) {
        Panel panel = panelAt(j, end);
        call.b = packB_ ? packed : b + j * tile_.bColumnStride;
        call.bRowStride = packB_ ? panel.vectors * Isa::width : tile_.bRowStride;
        call.b += used.begin * call.bRowStride;
        packed += depth * panel.vectors * Isa::width;
        runNeeded(call, i, rows, j, panel, neededColumns - j);
        j += panel.columns;
      }
      if (tile_.triangle == GemmTriangle::Result && p + depth == tile_.k)
        clearAboveDiagonal(i, rows, begin, end);
    }
  }

  struct Range {
    int64_t begin, end;
  };
  /// Of the block of k that begins at p: where a few rows of a are not all zero.
  Range usedDepth(int64_t i, int64_t rows, int64_t p, int64_t depth) const {
    int64_t row = tile_.firstRow + i - p;
    if (tile_.triangle == GemmTriangle::A)
      return {0, smaller(depth, row + rows)};
    return {tile_.triangle == GemmTriangle::ATransposed && row > 0 ? row : 0, depth};
  }
  bool hasEarlierBlock(int64_t i, int64_t p) const {
    return p > (tile_.triangle == GemmTriangle::ATransposed ? tile_.firstRow + i : 0);
  }
  /// Of the tile, for rows before `rowEnd`.
  int64_t columnsNeeded(int64_t rowEnd) const {
    return tile_.triangle == GemmTriangle::Result ? tile_.firstRow + rowEnd - tile_.firstColumn : tile_.columns;
  }

  /// The panel's first `needed` columns, in whole vectors.
  void runNeeded(Micro<Isa> &call, int64_t i, int64_t rows, int64_t j, Panel panel, int64_t needed) {
    int64_t vectors = needed >= panel.columns ? panel.vectors : needed <= 0 ? 0 : divideUp(needed, Isa::width);
    if (vectors == 3)
      vectors = 4; // there is no such micro-kernel
    if (vectors > 0)
      runPanel(call, i, rows, j, {vectors, smaller(panel.columns, vectors * Isa::width)});
  }

  void clearAboveDiagonal(int64_t i, int64_t rows, int64_t begin, int64_t end) {
    for (int64_t row = i; row < i + rows; ++row) {
      int64_t diagonal = tile_.firstRow + row - tile_.firstColumn, j = diagonal < begin ? begin : diagonal + 1;
      float *c = tile_.c + row * tile_.cRowStride;
      if (tile_.cColumnStride == 1)
        for (; j < end; j += Isa::width)
          Isa::store(c + j, Isa::mask(smaller(end - j, Isa::width)), Isa::zero());
      else
        for (; j < end; ++j)
          c[j * tile_.cColumnStride] = 0;
    }
  }

  /// Copies the rows of a few row tiles in the order a has them: of a transposed a, whole cache lines.
  void packRows(int64_t rowTile, int64_t p, int64_t depth) {
    int64_t begin = firstRow(rowTile), rows = firstRow(smaller(rowTile + tilesOfPack, rowTiles_)) - begin;
    const float *a = tile_.a + begin * tile_.aRowStride + p * tile_.aColumnStride;
    packedBegin_ = begin;
    if (tile_.aRowStride == 1) {
      copyBlock(a, tile_.aColumnStride, 1, depth, rows, tile_.packedA, rows);
      packedRowStride_ = 1, packedColumnStride_ = rows;
    } else {
      copyBlock(a, tile_.aRowStride, tile_.aColumnStride, rows, depth, tile_.packedA, depth);
      packedRowStride_ = depth, packedColumnStride_ = 1;
    }
  }

  /// Points the call at the rows of a tile, packed or where they lie.
  void placeA(Micro<Isa> &call, int64_t rowTile, int64_t p) const {
    int64_t i = firstRow(rowTile);
    call.a = packA_ ? tile_.packedA + (i - packedBegin_) * packedRowStride_
                    : tile_.a + i * tile_.aRowStride + p * tile_.aColumnStride;
    call.aRowStride = packA_ ? packedRowStride_ : tile_.aRowStride;
    call.aColumnStride = packA_ ? packedColumnStride_ : tile_.aColumnStride;
  }

  void runPanel(Micro<Isa> &call, int64_t i, int64_t rows, int64_t j, Panel panel) {
    call.lastMask = Isa::mask(panel.columns - (panel.vectors - 1) * Isa::width);
    bool masked = panel.columns < panel.vectors * Isa::width;
    MicroKernel<Isa> kernel = Kernels<Isa>::find(panel.vectors, rows, masked);
    float *c = tile_.c + i * tile_.cRowStride + j * tile_.cColumnStride;
    if (tile_.cColumnStride == 1) {
      call.c = c;
      call.cRowStride = tile_.cRowStride;
      kernel(call);
    } else {
      multiplyScattered(kernel, call, c, rows, panel.columns);
    }
  }

  /// For a c without contiguous columns: through a small contiguous block.
  void multiplyScattered(MicroKernel<Isa> kernel, Micro<Isa> call, float *c, int64_t rows, int64_t columns) {
    constexpr int64_t width = 4 * Isa::width;
    float block[Isa::rowsOfTwo * width];
    bool add = call.add;
    call.c = block;
    call.cRowStride = width;
    call.add = false;
    kernel(call);
    for (int64_t i = 0; i < rows; ++i)
      for (int64_t j = 0; j < columns; ++j) {
        float &target = c[i * tile_.cRowStride + j * tile_.cColumnStride];
        target = add ? target + block[i * width + j] : block[i * width + j];
      }
  }

  const GemmTile &tile_;
  int64_t rowTiles_, columnsOfBlock_;
  int64_t packedBegin_ = 0, packedRowStride_ = 0, packedColumnStride_ = 0;
  bool wide_, packA_, packB_;
};

} // namespace
} // namespace tapeout::rt
