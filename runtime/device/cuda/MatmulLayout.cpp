#include "runtime/device/cuda/MatmulLayout.h"

#include <algorithm>
#include <optional>
#include <vector>

namespace tapeout::rt {
namespace {

Status unfit(const char *why) {
  return Status::error(ExitCode::BadData, std::string("cuBLASLt cannot take this matrix product: ") + why);
}

/// Strides of a dimension of extent 1 mean nothing.
std::optional<MatrixLayout> columnMajor(int64_t rows, int64_t columns, int64_t rowStride, int64_t columnStride) {
  auto stored = [](int64_t rows, int64_t columns, int64_t leading, bool transposed) -> std::optional<MatrixLayout> {
    leading = columns == 1 ? rows : leading;
    if (leading < rows || std::max({rows, columns, leading}) > INT32_MAX)
      return std::nullopt;
    return MatrixLayout{rows, columns, leading, transposed};
  };
  std::optional<MatrixLayout> layout;
  if (rowStride == 1 || rows == 1)
    layout = stored(rows, columns, columnStride, false);
  if (!layout && (columnStride == 1 || columns == 1))
    layout = stored(columns, rows, rowStride, true);
  return layout;
}

/// The batch dimensions without those of extent 1, neighbours that are one dimension merged.
std::vector<GemmBatchDim> mergedBatch(const GemmProblem &problem) {
  std::vector<GemmBatchDim> merged;
  for (int i = 0; i < problem.batchDims; ++i) {
    const GemmBatchDim &inner = problem.batch[i];
    if (inner.extent == 1)
      continue;
    auto continues = [&](int64_t outerStride, int64_t stride) { return outerStride == stride * inner.extent; };
    if (!merged.empty() && continues(merged.back().aStride, inner.aStride) &&
        continues(merged.back().bStride, inner.bStride) && continues(merged.back().cStride, inner.cStride))
      merged.back() = {merged.back().extent * inner.extent, inner.aStride, inner.bStride, inner.cStride};
    else
      merged.push_back(inner);
  }
  return merged;
}

} // namespace

Result<MatmulLayout> chooseMatmulLayout(const GemmProblem &p) {
  MatmulLayout layout;
  // Most results are row-major, which is the transpose in column-major: c^T = b^T a^T.
  layout.swapped = p.cColumnStride == 1 || p.n == 1;
  std::optional<MatrixLayout> a, b, c;
  if (layout.swapped) {
    a = columnMajor(p.k, p.m, p.aColumnStride, p.aRowStride);
    b = columnMajor(p.n, p.k, p.bColumnStride, p.bRowStride);
    c = columnMajor(p.n, p.m, p.cColumnStride, p.cRowStride);
  } else {
    a = columnMajor(p.m, p.k, p.aRowStride, p.aColumnStride);
    b = columnMajor(p.k, p.n, p.bRowStride, p.bColumnStride);
    c = columnMajor(p.m, p.n, p.cRowStride, p.cColumnStride);
  }
  if (!a || !b || !c || c->transposed)
    return unfit("a matrix has no contiguous dimension, or its rows overlap, or it is too large");

  std::vector<GemmBatchDim> batch = mergedBatch(p);
  if (batch.size() > 2)
    return unfit("it has more than two batch dimensions");
  // The larger one in one call.
  std::stable_sort(batch.begin(), batch.end(), [](auto &x, auto &y) { return x.extent > y.extent; });
  batch.resize(2);
  if (std::max(batch[0].extent, batch[1].extent) > INT32_MAX)
    return unfit("it has too many matrices");
  layout.batch = batch[0].extent;
  layout.outer = batch[1].extent;
  a->batchStride = batch[0].aStride, a->outerStride = batch[1].aStride;
  b->batchStride = batch[0].bStride, b->outerStride = batch[1].bStride;
  c->batchStride = batch[0].cStride, c->outerStride = batch[1].cStride;
  layout.left = layout.swapped ? *b : *a;
  layout.right = layout.swapped ? *a : *b;
  layout.result = *c;
  return layout;
}

} // namespace tapeout::rt
