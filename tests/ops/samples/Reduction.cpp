#include "ir/tape/Reduction.h"

#include "tests/ops/Sample.h"

#include <limits>

using namespace mlir;
using namespace tapeout::tape;

namespace tapeout::ops {

namespace {
// Sums or maxima over the middle of [outer, extent, inner].
Arrays reduced(const std::vector<double> &x, size_t outer, size_t extent, size_t inner, bool isSum) {
  Arrays result(1);
  for (size_t o = 0; o < outer; ++o)
    for (size_t i = 0; i < inner; ++i) {
      double value = isSum ? 0 : -std::numeric_limits<double>::infinity();
      for (size_t e = 0; e < extent; ++e) {
        double element = x[(o * extent + e) * inner + i];
        value = isSum ? value + element : std::max(value, element);
      }
      result[0].push_back(value);
    }
  return result;
}

Sample reduce(std::string name, std::string kind, Input input, std::vector<int64_t> dimensions) {
  int64_t outer = 1, extent = 1, inner = 1;
  for (int64_t d = 0; d < int64_t(input.shape.size()); ++d)
    (d < dimensions.front() ? outer : d <= dimensions.back() ? extent : inner) *= input.shape[d];
  bool hasGradient = kind == "sum" && input.element == "f32";
  return {"reduce_" + name, {input}, [=](TapeBuilder &t, ValueRange x) { return t.reduce(kind, x[0], dimensions); },
          [=](const Arrays &x) { return reduced(x[0], outer, extent, inner, kind == "sum"); },
          hasGradient ? std::vector<unsigned>{0} : std::vector<unsigned>{}};
}

// The second tensor has a part and a rest, the third less than a vector.
const std::vector<Input> kTensors = {floats({3, 5}), floats({4096 + 100}), floats({7}), floats({2, 64})};

double sumOfSquares(const std::vector<double> &x, size_t begin, size_t end) {
  double sum = 0;
  for (size_t i = begin; i < std::min(end, x.size()); ++i)
    sum += x[i] * x[i];
  return sum;
}
} // namespace

std::vector<Sample> reductionSamples() {
  return {
      {"sum_of_squares", kTensors,
       [](TapeBuilder &t, ValueRange x) -> Value { return t.builder().create<SumOfSquaresOp>(t.loc(), x, Value()); },
       [](const Arrays &x) {
         double sum = 0;
         for (const auto &tensor : x)
           sum += sumOfSquares(tensor, 0, tensor.size());
         return Arrays{{sum}};
       }},
      {"sum_of_squares_parts", kTensors,
       [](TapeBuilder &t, ValueRange x) -> Value { return t.builder().create<SumOfSquaresPartsOp>(t.loc(), x, Value()); },
       [](const Arrays &x) {
         return Arrays{{sumOfSquares(x[0], 0, 15), sumOfSquares(x[1], 0, 4096), sumOfSquares(x[1], 4096, 4196),
                        sumOfSquares(x[2], 0, 7), sumOfSquares(x[3], 0, 128)}};
       }},
      {"sum_of_squares_scaled",
       {floats({4096 + 3}), scalar("f32", 0.5)},
       [](TapeBuilder &t, ValueRange x) -> Value { return t.builder().create<SumOfSquaresOp>(t.loc(), x[0], x[1]); },
       [](const Arrays &x) { return Arrays{{0.25 * sumOfSquares(x[0], 0, x[0].size())}}; }},
      reduce("sum_last", "sum", floats({5, 7}), {1}),
      reduce("sum_first", "sum", floats({5, 7}), {0}),
      reduce("sum_middle", "sum", floats({2, 3, 5}), {1}),
      reduce("sum_two", "sum", floats({2, 3, 5, 2}), {1, 2}),
      reduce("sum_all", "sum", floats({3, 3}), {0, 1}),
      reduce("sum_one", "sum", floats({1}), {0}),
      reduce("sum_split", "sum", floats({3, 8192}), {0, 1}), // long enough to become two reductions
      reduce("sum_integers", "sum", integers({9, 3}, -50, 50), {0}),
      reduce("max_last", "max", floats({5, 6}), {1}),
      reduce("max_first", "max", floats({6, 5}), {0}),
      reduce("max_all", "max", floats({31}, -3, -1), {0}),
      reduce("max_integers", "max", integers({31}, -30, -10), {0}),
  };
}

} // namespace tapeout::ops
