#include "codegen/reference/Kernels.h"

#include <algorithm>

namespace tapeout::codegen::reference {

double *gather(const double *source, std::span<const int64_t> shape, std::span<const int64_t> strides, double *out) {
  if (shape.empty()) {
    *out = *source;
    return out + 1;
  }
  if (shape.size() == 1) {
    for (int64_t i = 0; i < shape[0]; ++i)
      out[i] = source[i * strides[0]];
    return out + shape[0];
  }
  for (int64_t i = 0; i < shape[0]; ++i)
    out = gather(source + i * strides[0], shape.subspan(1), strides.subspan(1), out);
  return out;
}

void multiply(const double *lhs, const double *rhs, double *out, int64_t batch, int64_t m, int64_t n, int64_t k) {
  // A strip of columns at a time, so that the strip of rhs stays in the cache for all rows.
  constexpr int64_t kStrip = 64;
  for (int64_t b = 0; b < batch; ++b, lhs += m * k, rhs += k * n, out += m * n)
    for (int64_t begin = 0; begin < n; begin += kStrip) {
      int64_t end = std::min(begin + kStrip, n);
      for (int64_t row = 0; row < m; ++row) {
        double sums[kStrip] = {};
        for (int64_t i = 0; i < k; ++i)
          for (int64_t column = begin; column < end; ++column)
            sums[column - begin] += lhs[row * k + i] * rhs[i * n + column];
        std::copy(sums, sums + (end - begin), out + row * n + begin);
      }
    }
}

void reduce(const Bytecode &combiner, const double *source, double *out, int64_t outer, int64_t extent, int64_t inner) {
  std::vector<double> rows(extent * inner);
  for (int64_t o = 0; o < outer; ++o, source += extent * inner) {
    std::copy(source, source + extent * inner, rows.begin());
    // The lower half takes in the upper half; the middle row of an odd number waits for the next round.
    for (int64_t left = extent; left > 1; left = (left + 1) / 2) {
      const double *inputs[] = {rows.data(), rows.data() + (left + 1) / 2 * inner};
      double *outputs[] = {rows.data()};
      combiner.run(inputs, outputs, left / 2 * inner);
    }
    std::copy(rows.begin(), rows.begin() + inner, out + o * inner);
  }
}

} // namespace tapeout::codegen::reference
