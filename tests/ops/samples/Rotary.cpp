#include "ir/tape/Rotary.h"

#include "tests/ops/Sample.h"

#include <cmath>
#include <complex>

using namespace mlir;
using namespace tapeout::tape;

namespace tapeout::ops {

namespace {
Sample table(std::string name, int64_t tokens, int64_t pairs, double base, double last) {
  return {"rope_table_" + name, {integers({tokens, pairs}, 0, int64_t(last))},
          [=](TapeBuilder &t, ValueRange x) -> Value {
            return t.builder().create<RopeTableOp>(t.loc(), x[0], APFloat(base)).getCos();
          },
          [=](const Arrays &x) {
            Arrays result(2);
            for (size_t i = 0; i < x[0].size(); ++i) {
              double angle = x[0][i] / std::pow(base, double(i % pairs) / double(pairs));
              result[0].push_back(std::cos(angle));
              result[1].push_back(std::sin(angle));
            }
            return result;
          }};
}

// A pair is a complex number, and a turn a product with another one.
Arrays rotate(const Arrays &x, size_t tokens, size_t heads, size_t half) {
  Arrays result = {std::vector<double>(x[0].size())};
  for (size_t row = 0; row < x[0].size() / (2 * half); ++row)
    for (size_t i = 0; i < half; ++i) {
      size_t first = row * 2 * half + i, angle = row / heads % tokens * half + i;
      auto turned = std::complex(x[0][first], x[0][first + half]) * std::complex(x[1][angle], x[2][angle]);
      result[0][first] = turned.real();
      result[0][first + half] = turned.imag();
    }
  return result;
}

Sample rope(std::string name, int64_t batch, int64_t tokens, int64_t heads, int64_t size) {
  return {"rope_" + name, {floats({batch, tokens, heads, size}), floats({tokens, size / 2}), floats({tokens, size / 2})},
          [](TapeBuilder &t, ValueRange x) -> Value { return t.builder().create<RopeOp>(t.loc(), x[0], x[1], x[2]); },
          [=](const Arrays &x) { return rotate(x, tokens, heads, size / 2); }};
}
} // namespace

std::vector<Sample> rotarySamples() {
  return {
      table("small", 5, 3, 10000, 9),
      table("late", 3, 40, 500000, 8000),
      rope("heads", 2, 3, 4, 6),
      rope("one_pair", 1, 5, 1, 2),
      rope("wide", 2, 2, 3, 64),
  };
}

} // namespace tapeout::ops
