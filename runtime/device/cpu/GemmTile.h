// One thread's share of a matrix product: a tile of c over all of k. Between Gemm.cpp, which cuts a product into tiles,
// and the two instances of GemmKernel.h, which compute one.
#pragma once

#include "runtime/device/cpu/GemmTriangle.h"

#include <cstdint>

namespace tapeout::rt {

// Bounds of a tile and of its blocks: a few rows of a (14 x depth) stay in the L1 cache of a core, a block of b
// (depth x columns, at most 768 KiB) in its L2 cache.
constexpr int64_t maxTileRows = 1024;
constexpr int64_t maxTileColumns = 384;
constexpr int64_t maxBlockDepth = 512;
constexpr int64_t maxPanelColumns = 64;

constexpr int64_t maxPackedRows = 64; // of a, copied at once
constexpr int64_t packedAFloats = maxPackedRows * maxBlockDepth;
constexpr int64_t packedBFloats = (maxTileColumns + maxPanelColumns) * maxBlockDepth; // the last panel is padded

/// Strides count elements; cColumnStride is 1 on the fast path.
struct GemmTile {
  int64_t rows, columns, k;
  const float *a;
  int64_t aRowStride, aColumnStride;
  const float *b;
  int64_t bRowStride, bColumnStride;
  float *c;
  int64_t cRowStride, cColumnStride;
  bool accumulate;
  GemmTriangle triangle = GemmTriangle::None;
  int64_t firstRow = 0, firstColumn = 0; // of the tile in c
  float *packedA, *packedB; // room for packedAFloats and packedBFloats, 64-byte aligned
};

void gemmTileAvx2(const GemmTile &tile);
void gemmTileAvx512(const GemmTile &tile);

} // namespace tapeout::rt
