#pragma once

#include "ir/tape/Tape.h"

#define GET_OP_CLASSES
#include "ir/tape/ProductKernels.h.inc"

namespace tapeout::tape {
void registerProductKernelsOps(TapeDialect &dialect);

/// What a block of the kernels computes at a time.
inline constexpr int64_t kProductRows = 160, kProductFeatures = 128, kProductDepth = 64;

/// The sizes of a product of `rows` rows of `depth` elements with a weight.
struct ProductSizes {
  int64_t rows, features, depth;
};
/// None where the kernels cannot compute it: types, or sizes that do not divide into tiles.
std::optional<ProductSizes> productKernelSizes(mlir::Value operand, mlir::Value weight, int64_t summed);
} // namespace tapeout::tape
