// How a product of the plan, whose operands have any strides, is told to cuBLASLt, which takes column-major matrices.
#pragma once

#include "runtime/base/Status.h"
#include "runtime/device/cpu/Gemm.h"

#include <cstdint>

namespace tapeout::rt {

/// A column-major matrix, and whether the product takes it transposed.
struct MatrixLayout {
  int64_t rows = 0, columns = 0;    // as stored
  int64_t leadingDimension = 0;     // elements from one column to the next
  bool transposed = false;
  int64_t batchStride = 0, outerStride = 0; // elements
  bool operator==(const MatrixLayout &) const = default;
};

/// result = left * right, for each of `batch` matrices in one call, for each of `outer` calls.
struct MatmulLayout {
  bool swapped = false; // result is c^T, left is b^T, right is a^T; else c, a, b
  MatrixLayout left, right, result;
  int64_t batch = 1, outer = 1;
};

/// BadData for strides that cuBLASLt cannot take: a matrix neither of whose dimensions is contiguous, rows that overlap, more
/// than two batch dimensions that are not one, extents of more than 2^31 - 1.
Result<MatmulLayout> chooseMatmulLayout(const GemmProblem &problem);

} // namespace tapeout::rt
