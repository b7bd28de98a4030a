// The tiles of convolutions, written once for both instruction sets: blocks of the patch matrix are copied into the
// layout that the micro-kernel of the matrix product reads. Included by ConvolutionAvx2.cpp and ConvolutionAvx512.cpp only.
#pragma once

#include "runtime/device/cpu/ConvolutionTile.h"
#include "runtime/device/cpu/GemmKernel.h"

namespace tapeout::rt {
namespace {

constexpr int64_t larger(int64_t x, int64_t y) { return x > y ? x : y; }

/// Copies blocks of the patch matrix: some of its columns, chosen once, and any of its rows.
template <typename Isa> class Patches {
public:
  static constexpr int64_t width = Isa::width, maxColumns = maxWeightDepth, maxVectors = maxColumns / width;

  explicit Patches(const PatchSource &source) : source_(source) {}

  /// Columns of the block that lie in one row of the grid.
  struct Run {
    int64_t begin, end;  // in the block
    int64_t image, y, x; // position of the first
  };
  const Run *begin() const { return runs_; }
  const Run *end() const { return runs_ + runCount_; }
  int64_t vectors() const { return divideUp(columns_, width); }

  void choose(int64_t column, int64_t columns) {
    columns_ = columns;
    runCount_ = 0;
    int64_t x = column % source_.gridWidth, row = column / source_.gridWidth;
    int64_t y = row % source_.gridHeight, image = row / source_.gridHeight;
    for (int64_t at = 0; at < columns; x = 0) {
      int64_t length = smaller(source_.gridWidth - x, columns - at);
      runs_[runCount_++] = {at, at + length, image, y, x};
      at += length;
      if (++y == source_.gridHeight) {
        y = 0;
        ++image;
      }
    }
  }

  /// Row k, for first <= k < end, goes to target(v) + (k - first) * stride, vector by vector.
  template <typename Target> void copy(int64_t first, int64_t end, Target target) {
    for (int64_t t = 0; t < source_.tapCount; ++t) {
      int64_t channel = divideUp(larger(first - t, 0), source_.tapCount);
      int64_t channels = divideUp(larger(end - t, 0), source_.tapCount) - channel;
      if (channels <= 0)
        continue;
      const float *from = source_.data + channel * plane();
      int64_t row = channel * source_.tapCount + t - first;
      if (source_.stepX == 1)
        copyTap(source_.taps[t], from, channels, row, target);
      else
        copySteppedTap(source_.taps[t], from, channels, row, target);
    }
  }

private:
  struct Piece {
    int64_t offset; // of lane 0
    uint32_t lanes;
  };

  int64_t plane() const { return source_.height * source_.width; }

  /// Where the run's columns begin in the source, and which of them lie inside; none: end <= begin.
  struct Inside {
    int64_t offset, begin, end;
  };
  Inside clip(const Run &run, const Tap &tap) const {
    int64_t y = run.y * source_.stepY + tap.y;
    if (y < 0 || y >= source_.height)
      return {0, 0, 0};
    int64_t x = run.x * source_.stepX + tap.x, step = source_.stepX; // of the first column
    int64_t begin = run.begin + (x < 0 ? divideUp(-x, step) : 0);
    int64_t end = x >= source_.width ? run.begin : smaller(run.end, run.begin + divideUp(source_.width - x, step));
    return {run.image * source_.channels * plane() + y * source_.width + x, begin, end};
  }

  // Neighbours in the grid are neighbours in the source: a vector is a few masked loads.
  template <typename Target>
  void copyTap(const Tap &tap, const float *from, int64_t channels, int64_t row, Target target) {
    int64_t counts[maxVectors] = {};
    for (const Run &run : *this) {
      Inside inside = clip(run, tap);
      for (int64_t v = inside.begin / width; v * width < inside.end; ++v) {
        int64_t begin = larger(inside.begin - v * width, 0), end = smaller(inside.end - v * width, width);
        uint32_t lanes = (uint32_t(1) << end) - (uint32_t(1) << begin);
        int64_t offset = inside.offset - run.begin + v * width;
        if (counts[v] > 0 && pieces_[v][counts[v] - 1].offset == offset)
          pieces_[v][counts[v] - 1].lanes |= lanes;
        else
          pieces_[v][counts[v]++] = {offset, lanes};
      }
    }
    for (int64_t v = 0; v < vectors(); ++v) {
      auto [to, stride] = target(v);
      copyVector(pieces_[v], counts[v], from, channels, to + row * stride, stride * source_.tapCount);
    }
  }

  void copyVector(const Piece *pieces, int64_t count, const float *from, int64_t channels, float *to,
                  int64_t stride) const {
    using Vector = typename Isa::Vector;
    using Mask = typename Isa::Mask;
    const int64_t step = plane();
    if (count == 0) {
      for (int64_t c = 0; c < channels; ++c, to += stride)
        Isa::store(to, Isa::zero());
      return;
    }
    const float *first = from + pieces[0].offset;
    const Mask firstMask = Isa::maskOfBits(pieces[0].lanes);
    if (count == 1) {
      for (int64_t c = 0; c < channels; ++c, first += step, to += stride)
        Isa::store(to, Isa::load(first, firstMask));
      return;
    }
    const float *second = from + pieces[1].offset;
    const Mask secondMask = Isa::maskOfBits(pieces[1].lanes);
    if (count == 2) {
      for (int64_t c = 0; c < channels; ++c, first += step, second += step, to += stride)
        Isa::store(to, Isa::loadInto(Isa::load(first, firstMask), second, secondMask));
      return;
    }
    for (int64_t c = 0; c < channels; ++c, first += step, second += step, to += stride) {
      Vector value = Isa::loadInto(Isa::load(first, firstMask), second, secondMask);
      for (int64_t i = 2; i < count; ++i)
        value = Isa::loadInto(value, from + c * step + pieces[i].offset, Isa::maskOfBits(pieces[i].lanes));
      Isa::store(to, value);
    }
  }

  // Element by element.
  template <typename Target>
  void copySteppedTap(const Tap &tap, const float *from, int64_t channels, int64_t row, Target target) {
    const int64_t step = plane();
    for (int64_t v = 0; v < vectors(); ++v) {
      auto [to, stride] = target(v);
      to += row * stride;
      for (int64_t c = 0; c < channels; ++c)
        Isa::store(to + c * stride * source_.tapCount, Isa::zero());
    }
    for (const Run &run : *this) {
      Inside inside = clip(run, tap);
      for (int64_t j = inside.begin; j < inside.end; ++j) {
        auto [to, stride] = target(j / width);
        float *lane = to + row * stride + j % width;
        const float *element = from + inside.offset + (j - run.begin) * source_.stepX;
        for (int64_t c = 0; c < channels; ++c)
          lane[c * stride * source_.tapCount] = element[c * step];
      }
    }
  }

  const PatchSource &source_;
  Run runs_[maxColumns];
  Piece pieces_[maxVectors][width];
  int64_t columns_ = 0, runCount_ = 0;
};

/// The panels of a block of b: two vectors wide, but for a last one of one vector.
template <typename Isa> struct Panels {
  static constexpr int64_t width = 2 * Isa::width;
  float *data;
  int64_t columns, depth;

  int64_t vectorsAt(int64_t column) const { return columns - column > Isa::width ? 2 : 1; }
  int64_t stride(int64_t column) const { return vectorsAt(column) * Isa::width; }
  float *at(int64_t column) const { return data + column * depth; } // of a panel's first column
};

/// c[rows, columns of the panels] (+)= a * b for all rows, a few at a time. place(firstRow, rows) gives their a.
struct Rows {
  const float *a;
  int64_t rowStride, columnStride;
};
template <typename Isa, typename Place>
void multiplyPanels(const Panels<Isa> &b, int64_t rows, float *c, int64_t cRowStride, bool add, Place place) {
  int64_t tiles = divideUp(rows, Isa::rowsOfTwo), length = rows / tiles, longer = rows % tiles;
  for (int64_t tile = 0, i = 0; tile < tiles; ++tile) {
    int64_t count = length + (tile < longer);
    Rows left = place(i, count);
    Micro<Isa> call = {};
    call.k = b.depth;
    call.a = left.a;
    call.aRowStride = left.rowStride;
    call.aColumnStride = left.columnStride;
    call.cRowStride = cRowStride;
    call.add = add;
    for (int64_t j = 0; j < b.columns; j += Panels<Isa>::width) {
      int64_t vectors = b.vectorsAt(j), columns = smaller(b.columns - j, Panels<Isa>::width);
      call.b = b.at(j);
      call.bRowStride = b.stride(j);
      call.c = c + i * cRowStride + j;
      call.lastMask = Isa::mask(columns - (vectors - 1) * Isa::width);
      Kernels<Isa>::find(vectors, count, columns < vectors * Isa::width)(call);
    }
    i += count;
  }
}

template <typename Isa> void copyFloats(const float *from, float *to, int64_t count) {
  for (; count >= Isa::width; count -= Isa::width, from += Isa::width, to += Isa::width)
    Isa::store(to, Isa::load(from));
  if (count > 0) {
    const auto mask = Isa::mask(count);
    Isa::store(to, mask, Isa::load(from, mask));
  }
}

template <typename Isa> class PatchProduct {
public:
  explicit PatchProduct(const PatchTile &tile)
      : tile_(tile), patches_(tile.source), depth_(tile.source.channels * tile.source.tapCount),
        packedA_(tile.workspace), packedB_(packedA_ + maxMicroKernelRows * maxPatchDepth),
        result_(packedB_ + maxPatchColumns * maxPatchDepth) {}

  void run() {
    patches_.choose(tile_.column, tile_.columns);
    const auto &first = *patches_.begin(), &last = patches_.end()[-1];
    bool direct = depth_ > 0 && first.image == last.image && tile_.xStride == 1 &&
                  (first.y == last.y || tile_.yStride == tile_.source.gridWidth);
    if (direct) { // the tile's columns are neighbours in the result, too
      result_ = resultOf(0, first);
      resultStride_ = tile_.rowStride;
    }
    if (depth_ == 0) // positions that no tap reaches
      for (int64_t i = 0; i < tile_.rows * resultStride_; ++i)
        result_[i] = 0;
    // Balanced blocks, by the depth alone, since they decide the bits of the result.
    int64_t blocks = divideUp(depth_, maxPatchDepth), length = blocks ? divideUp(divideUp(depth_, blocks), 8) * 8 : 0;
    for (int64_t p = 0; p < depth_; p += length)
      multiplyBlock(p, smaller(length, depth_ - p));
    for (int64_t i = 0; i < tile_.rows && !direct; ++i)
      writeRow(i);
  }

private:
  void multiplyBlock(int64_t p, int64_t depth) {
    Panels<Isa> panels{packedB_, tile_.columns, depth};
    struct Place {
      float *to;
      int64_t stride;
    };
    patches_.copy(p, p + depth, [&](int64_t v) {
      int64_t column = v / 2 * Panels<Isa>::width;
      return Place{panels.at(column) + v % 2 * Isa::width, panels.stride(column)};
    });
    multiplyPanels(panels, tile_.rows, result_, resultStride_, p > 0,
                   [&](int64_t i, int64_t rows) { return placeWeights(i, rows, p, depth); });
  }

  Rows placeWeights(int64_t i, int64_t rows, int64_t p, int64_t depth) const {
    const float *weight = tile_.weight + (tile_.row + i) * tile_.weightRow;
    const int64_t taps = tile_.source.tapCount;
    if (tile_.allTaps && tile_.weightChannel == taps) { // contiguous, in the order of the patch matrix
      if (tile_.weightRow % 1024 != 0)                  // rows at a multiple of 4 KiB share one set of the L1 cache
        return {weight + p, tile_.weightRow, 1};
      copyBlock(weight + p, tile_.weightRow, 1, rows, depth, packedA_, depth);
      return {packedA_, depth, 1};
    }
    if (taps == 1 && tile_.weightRow == 1) { // 1 x 1: transposed, as it lies
      copyBlock(weight + p * tile_.weightChannel, tile_.weightChannel, 1, depth, rows, packedA_, rows);
      return {packedA_, 1, rows};
    }
    int64_t channel = p / taps, t = p % taps;
    for (int64_t k = 0; k < depth; ++channel, t = 0) { // rows are neighbours in memory, channels far apart
      int64_t count = smaller(taps - t, depth - k);
      const float *from = weight + channel * tile_.weightChannel;
      for (int64_t r = 0; r < rows; ++r, from += tile_.weightRow) {
        float *to = packedA_ + r * depth + k;
        if (tile_.allTaps)
          copyFloats<Isa>(from + t, to, count);
        else
          for (int64_t i = 0; i < count; ++i)
            to[i] = from[tile_.source.taps[t + i].weight];
      }
      k += count;
    }
    return {packedA_, depth, 1};
  }

  float *resultOf(int64_t i, const typename Patches<Isa>::Run &run) const {
    return tile_.result + (tile_.row + i) * tile_.rowStride + run.image * tile_.imageStride + run.y * tile_.yStride +
           run.x * tile_.xStride;
  }

  void writeRow(int64_t i) const {
    const float *from = result_ + i * resultStride_;
    for (const auto &run : patches_) {
      float *to = resultOf(i, run);
      if (tile_.xStride == 1)
        copyFloats<Isa>(from + run.begin, to, run.end - run.begin);
      else
        for (int64_t j = run.begin; j < run.end; ++j, to += tile_.xStride)
          *to = from[j];
    }
  }

  const PatchTile &tile_;
  Patches<Isa> patches_;
  int64_t depth_;
  float *packedA_, *packedB_, *result_;
  int64_t resultStride_ = maxPatchColumns;
};

template <typename Isa> class WeightProduct {
public:
  explicit WeightProduct(const WeightTile &tile)
      : tile_(tile), patches_(tile.source), packedA_(tile.workspace),
        packedB_(packedA_ + maxWeightRows * weightRowStride), result_(packedB_ + maxPatchColumns * maxWeightDepth) {}

  void run() {
    for (int64_t q = tile_.begin; q < tile_.end; q += maxWeightDepth)
      multiplyBlock(q, smaller(maxWeightDepth, tile_.end - q));
    if (tile_.begin == tile_.end) // a part without positions
      for (int64_t i = 0; i < tile_.rows * maxPatchColumns; ++i)
        result_[i] = 0;
    int64_t rowLength = tile_.source.channels * tile_.source.tapCount;
    copyBlock(result_, 1, maxPatchColumns, tile_.columns, tile_.rows,
              tile_.result + tile_.column * rowLength + tile_.row, rowLength);
  }

private:
  void multiplyBlock(int64_t q, int64_t depth) {
    patches_.choose(q, depth);
    struct Place {
      float *to;
      int64_t stride;
    };
    patches_.copy(tile_.row, tile_.row + tile_.rows, [&](int64_t v) {
      return Place{packedA_ + v * Isa::width, weightRowStride};
    });
    Panels<Isa> panels{packedB_, tile_.columns, depth};
    packGradient(q, panels);
    multiplyPanels(panels, tile_.rows, result_, maxPatchColumns, q > tile_.begin, [&](int64_t i, int64_t) {
      return Rows{packedA_ + i * weightRowStride, weightRowStride, 1};
    });
  }

  /// Transposed, image by image: panels of filters, with a row for each position.
  void packGradient(int64_t q, const Panels<Isa> &panels) const {
    const int64_t grid = tile_.source.gridHeight * tile_.source.gridWidth;
    for (int64_t at = 0; at < panels.depth;) {
      int64_t image = (q + at) / grid, position = (q + at) % grid, length = smaller(grid - position, panels.depth - at);
      for (int64_t j = 0; j < panels.columns; j += Panels<Isa>::width)
        copyBlock(tile_.gradient + (image * tile_.filters + tile_.column + j) * grid + position, 1, grid, length,
                  smaller(panels.columns - j, panels.stride(j)), panels.at(j) + at * panels.stride(j),
                  panels.stride(j));
      at += length;
    }
  }

  const WeightTile &tile_;
  Patches<Isa> patches_;
  float *packedA_, *packedB_, *result_;
};

} // namespace
} // namespace tapeout::rt
