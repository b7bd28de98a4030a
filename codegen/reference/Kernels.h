// The loops of the ops that have no scalar body, over doubles.
#pragma once

#include "codegen/reference/Bytecode.h"

namespace tapeout::codegen::reference {

/// out, row-major of `shape`, gets source[sum over d of strides[d] * index[d]]. Returns the end of what was written.
double *gather(const double *source, std::span<const int64_t> shape, std::span<const int64_t> strides, double *out);

/// out [batch, m, n] = lhs [batch, m, k] times rhs [batch, k, n], summed in the order of k.
void multiply(const double *lhs, const double *rhs, double *out, int64_t batch, int64_t m, int64_t n, int64_t k);

/// out [outer, inner]: combines source [outer, extent, inner] over the middle as a balanced tree, which depends on the
/// extent only.
void reduce(const Bytecode &combiner, const double *source, double *out, int64_t outer, int64_t extent, int64_t inner);

} // namespace tapeout::codegen::reference
