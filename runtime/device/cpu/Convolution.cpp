#include "runtime/device/cpu/Convolution.h"

#include "runtime/device/cpu/ConvolutionTile.h"
#include "runtime/device/cpu/GemmTile.h"

#include <algorithm>
#include <atomic>
#include <string>
#include <vector>

namespace tapeout::rt {

namespace {

constexpr int64_t maxExtent = int64_t(1) << 24;
constexpr int64_t tilesPerThread = 4;
constexpr int64_t rowStep = 64; // smallest number of rows of a tile, unless there are fewer

static_assert(std::max(patchTileFloats, weightTileFloats) <= packedAFloats + packedBFloats,
              "the workspace is that of gemm");

constexpr int64_t divideUp(int64_t x, int64_t y) { return (x + y - 1) / y; }

PatchSource sourceOf(const float *data, int64_t channels, const WindowShape &window, const std::vector<Tap> &taps) {
  return {data,
          channels,
          window.height,
          window.width,
          window.outHeight,
          window.outWidth,
          window.strideY,
          window.strideX,
          taps.data(),
          static_cast<int64_t>(taps.size())};
}

/// Row by row; position (y, x) of the window reads (y * strideY, x * strideX) plus this.
std::vector<Tap> forwardTaps(const WindowShape &window) {
  std::vector<Tap> taps;
  for (int64_t r = 0; r < window.kernelHeight; ++r)
    for (int64_t s = 0; s < window.kernelWidth; ++s)
      taps.push_back({r - window.padTop, s - window.padLeft, r * window.kernelWidth + s});
  return taps;
}

/// Runs body(tile, memory of the thread) for all tiles; threads take them from a shared counter.
template <typename Body> void forTiles(int64_t tiles, ThreadPool &pool, GemmWorkspace &workspace, const Body &body) {
  int64_t slots = std::min<int64_t>({tiles, pool.threads(), workspace.threads()});
  std::atomic<int64_t> next = 0;
  pool.parallelFor(slots, 1, [&](int64_t slot, int64_t) {
    for (int64_t tile; (tile = next.fetch_add(1, std::memory_order_relaxed)) < tiles;)
      body(tile, workspace.ofThread(slot));
  });
}

void run(const PatchTile &tile, CpuIsa isa) { isa == CpuIsa::Avx512 ? patchTileAvx512(tile) : patchTileAvx2(tile); }
void run(const WeightTile &tile, CpuIsa isa) { isa == CpuIsa::Avx512 ? weightTileAvx512(tile) : weightTileAvx2(tile); }

/// Products with patch matrices, cut into tiles.
class PatchProducts {
public:
  /// `prototype` has everything but the ranges; its rows are those of the whole product.
  void add(const PatchTile &prototype, int64_t positions) {
    if (positions > 0)
      products_.push_back({prototype, positions});
  }

  void runAll(CpuIsa isa, ThreadPool &pool, GemmWorkspace &workspace) {
    int64_t rows = 0, columnTiles = 0;
    for (const Product &product : products_) {
      rows = product.prototype.rows;
      columnTiles += divideUp(product.positions, maxPatchColumns);
    }
    // Cutting rows copies patches more often, so it is only for threads that would have nothing to do.
    int64_t rowTiles = divideUp(rows, maxPatchRows);
    while (columnTiles * rowTiles < tilesPerThread * pool.threads() && pool.threads() > 1 &&
           divideUp(rows, rowTiles) > rowStep)
      rowTiles *= 2;
    int64_t tileRows = divideUp(rows, rowTiles);
    rowTiles = divideUp(rows, tileRows);
    forTiles(columnTiles * rowTiles, pool, workspace, [&](int64_t index, float *memory) {
      int64_t column = index / rowTiles * maxPatchColumns;
      auto product = products_.begin();
      while (column >= divideUp(product->positions, maxPatchColumns) * maxPatchColumns)
        column -= divideUp((product++)->positions, maxPatchColumns) * maxPatchColumns;
      PatchTile tile = product->prototype;
      tile.row = index % rowTiles * tileRows;
      tile.rows = std::min(tileRows, rows - tile.row);
      tile.column = column;
      tile.columns = std::min(maxPatchColumns, product->positions - column);
      tile.workspace = memory;
      run(tile, isa);
    });
  }

private:
  struct Product {
    PatchTile prototype;
    int64_t positions;
  };
  std::vector<Product> products_;
};

} // namespace

Status verifyWindow(const WindowShape &window) {
  for (int64_t extent : {window.height, window.width, window.kernelHeight, window.kernelWidth, window.outHeight,
                         window.outWidth, window.strideY, window.strideX})
    if (extent < 1 || extent > maxExtent)
      return Status::error(ExitCode::BadData, "the window has an extent or stride of " + std::to_string(extent) +
                                                  " where 1 to " + std::to_string(maxExtent) +
                                                  " is possible; recompile the model");
  if (window.padTop < 0 || window.padTop >= window.kernelHeight || window.padLeft < 0 ||
      window.padLeft >= window.kernelWidth)
    return Status::error(ExitCode::BadData,
                         "the window's padding is negative or as large as the window; recompile the model");
  if ((window.outHeight - 1) * window.strideY - window.padTop >= window.height ||
      (window.outWidth - 1) * window.strideX - window.padLeft >= window.width)
    return Status::error(ExitCode::BadData,
                         "the window's last position lies outside of the input; recompile the model");
  return Status::ok();
}

void convolve(const ConvolutionShape &shape, const float *x, const float *w, float *y, CpuIsa isa, ThreadPool &pool,
              GemmWorkspace &workspace) {
  const WindowShape &window = shape.window;
  std::vector<Tap> taps = forwardTaps(window);
  int64_t grid = window.outHeight * window.outWidth, tapCount = static_cast<int64_t>(taps.size());
  PatchTile tile = {};
  tile.source = sourceOf(x, shape.channels, window, taps);
  tile.rows = shape.filters;
  tile.weight = w;
  tile.weightRow = shape.channels * tapCount;
  tile.weightChannel = tapCount;
  tile.allTaps = true;
  tile.result = y;
  tile.imageStride = shape.filters * grid;
  tile.rowStride = grid;
  tile.yStride = window.outWidth;
  tile.xStride = 1;
  PatchProducts products;
  products.add(tile, shape.batch * grid);
  products.runAll(isa, pool, workspace);
}

// Input rows y = strideY * y' + first all meet the same taps: those r with y + padTop - r a multiple of strideY. So the
// gradient is one dense convolution of dy for each remainder of y and x.
void convolveInputGradient(const ConvolutionShape &shape, const float *dy, const float *w, float *dx, CpuIsa isa,
                           ThreadPool &pool, GemmWorkspace &workspace) {
  const WindowShape &window = shape.window;
  int64_t plane = window.height * window.width, kernel = window.kernelHeight * window.kernelWidth;
  std::vector<std::vector<Tap>> taps;
  taps.reserve(window.strideY * window.strideX);
  PatchProducts products;
  for (int64_t firstY = 0; firstY < std::min(window.strideY, window.height); ++firstY)
    for (int64_t firstX = 0; firstX < std::min(window.strideX, window.width); ++firstX) {
      std::vector<Tap> &own = taps.emplace_back();
      for (const Tap &tap : forwardTaps(window)) {
        int64_t y = firstY - tap.y, x = firstX - tap.x;
        if (y % window.strideY == 0 && x % window.strideX == 0)
          own.push_back({y / window.strideY, x / window.strideX, tap.weight});
      }
      PatchTile tile = {};
      tile.source = {dy,
                     shape.filters,
                     window.outHeight,
                     window.outWidth,
                     divideUp(window.height - firstY, window.strideY),
                     divideUp(window.width - firstX, window.strideX),
                     1,
                     1,
                     own.data(),
                     static_cast<int64_t>(own.size())};
      tile.rows = shape.channels;
      tile.weight = w;
      tile.weightRow = kernel;
      tile.weightChannel = shape.channels * kernel;
      tile.allTaps = window.strideY == 1 && window.strideX == 1;
      tile.result = dx + firstY * window.width + firstX;
      tile.imageStride = shape.channels * plane;
      tile.rowStride = plane;
      tile.yStride = window.strideY * window.width;
      tile.xStride = window.strideX;
      products.add(tile, shape.batch * tile.source.gridHeight * tile.source.gridWidth);
    }
  products.runAll(isa, pool, workspace);
}

void convolveWeightGradient(const ConvolutionShape &shape, int64_t parts, const float *x, const float *dy, float *dw,
                            CpuIsa isa, ThreadPool &pool, GemmWorkspace &workspace) {
  const WindowShape &window = shape.window;
  std::vector<Tap> taps = forwardTaps(window);
  int64_t positions = shape.batch * window.outHeight * window.outWidth, partLength = divideUp(positions, parts);
  int64_t rows = shape.channels * static_cast<int64_t>(taps.size());
  int64_t rowLength = divideUp(rows, divideUp(rows, maxWeightRows)),
          columnLength = std::min(shape.filters, maxPatchColumns);
  int64_t rowTiles = divideUp(rows, rowLength), columnTiles = divideUp(shape.filters, columnLength);
  while (parts * rowTiles * columnTiles < tilesPerThread * pool.threads() && pool.threads() > 1 &&
         rowLength > rowStep) {
    rowLength = divideUp(rowLength, 2);
    rowTiles = divideUp(rows, rowLength);
  }
  forTiles(parts * rowTiles * columnTiles, pool, workspace, [&](int64_t index, float *memory) {
    int64_t part = index / (rowTiles * columnTiles);
    WeightTile tile = {};
    tile.source = sourceOf(x, shape.channels, window, taps);
    tile.row = index % rowTiles * rowLength;
    tile.rows = std::min(rowLength, rows - tile.row);
    tile.column = index / rowTiles % columnTiles * columnLength;
    tile.columns = std::min(columnLength, shape.filters - tile.column);
    tile.begin = std::min(positions, part * partLength);
    tile.end = std::min(positions, tile.begin + partLength);
    tile.gradient = dy;
    tile.filters = shape.filters;
    tile.result = dw + part * shape.filters * rows;
    tile.workspace = memory;
    run(tile, isa);
  });
}

} // namespace tapeout::rt
