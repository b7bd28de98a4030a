// One thread's share of a convolution. Between Convolution.cpp, which cuts it into tiles, and the two instances of
// ConvolutionKernel.h, which compute one.
//
// The patch matrix of a source [n, channels, height, width] has a row (c, t) for each channel and tap, a column for each
// position (n, y, x) of a grid, and the element source[n, c, y * stepY + taps[t].y, x * stepX + taps[t].x], or 0 outside.
// It is never made as a whole: a tile copies the blocks it needs.
#pragma once

#include <cstdint>

namespace tapeout::rt {

constexpr int64_t maxPatchRows = 512;    // of the result of a PatchTile
constexpr int64_t maxPatchColumns = 128; // of the result of either tile; a multiple of every panel width
constexpr int64_t maxPatchDepth = 512;   // rows of the patch matrix in a block
constexpr int64_t maxWeightRows = 288;   // of the result of a WeightTile
constexpr int64_t maxWeightDepth = 256;  // columns of the patch matrix in a block
constexpr int64_t weightRowStride = maxWeightDepth + 16; // rows at a power of two would share sets of the L1 cache
constexpr int64_t maxMicroKernelRows = 16;

constexpr int64_t patchTileFloats =
    maxMicroKernelRows * maxPatchDepth + maxPatchColumns * maxPatchDepth + maxPatchRows * maxPatchColumns;
constexpr int64_t weightTileFloats =
    maxWeightRows * weightRowStride + maxPatchColumns * maxWeightDepth + maxWeightRows * maxPatchColumns;

struct Tap {
  int64_t y, x;
  int64_t weight; // the index of its weight in the kernel
};

struct PatchSource {
  const float *data;
  int64_t channels, height, width;
  int64_t gridHeight, gridWidth, stepY, stepX;
  const Tap *taps;
  int64_t tapCount;
};

/// result[i, q] = sum over (c, t) of weight[i, c, taps[t].weight] * patch[(c, t), q]: a convolution, or its input gradient.
struct PatchTile {
  PatchSource source;
  int64_t row, rows;
  int64_t column, columns;
  const float *weight;
  int64_t weightRow, weightChannel; // strides of i, of c
  bool allTaps;                     // taps[t].weight is t
  float *result;                    // [n, i, y, x] by these strides
  int64_t imageStride, rowStride, yStride, xStride;
  float *workspace; // patchTileFloats, 64-byte aligned
};

/// result[o, (c, t)] = sum over q in [begin, end) of gradient[o, q] * patch[(c, t), q]: a weight gradient, of some positions.
struct WeightTile {
  PatchSource source;
  int64_t row, rows;       // (c, t)
  int64_t column, columns; // o
  int64_t begin, end;
  const float *gradient; // [n, filters, grid]
  int64_t filters;
  float *result;    // [filters, channels * tapCount]
  float *workspace; // weightTileFloats, 64-byte aligned
};

void patchTileAvx2(const PatchTile &tile);
void patchTileAvx512(const PatchTile &tile);
void weightTileAvx2(const WeightTile &tile);
void weightTileAvx512(const WeightTile &tile);

} // namespace tapeout::rt
