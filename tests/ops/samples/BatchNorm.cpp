#include "ir/tape/BatchNorm.h"

#include "tests/ops/Sample.h"

#include <cmath>

using namespace mlir;
using namespace tapeout::tape;

namespace tapeout::ops {

namespace {
constexpr double kEpsilon = 1e-5, kMomentum = 0.1;
using Doubles = std::vector<double>;

/// f(element, channel) of a tensor [batch, channels, ...].
template <typename F> void forEach(const std::vector<int64_t> &shape, F f) {
  size_t count = 1, plane = 1;
  for (size_t d = 0; d < shape.size(); ++d) {
    count *= shape[d];
    plane *= d < 2 ? 1 : shape[d];
  }
  for (size_t i = 0; i < count; ++i)
    f(i, i / plane % shape[1]);
}

Arrays statistics(const std::vector<int64_t> &shape, const Arrays &x) {
  size_t channels = shape[1];
  Arrays result(4, Doubles(channels));
  double count = static_cast<double>(x[0].size() / channels);
  forEach(shape, [&](size_t i, size_t c) { result[0][c] += x[0][i] / count; });
  forEach(shape, [&](size_t i, size_t c) { result[1][c] += std::pow(x[0][i] - result[0][c], 2) / count; });
  for (size_t c = 0; c < channels; ++c) {
    result[2][c] = 0.9 * x[1][c] + 0.1 * result[0][c];
    result[3][c] = 0.9 * x[2][c] + 0.1 * result[1][c] * count / (count - 1);
  }
  return result;
}

Sample statisticsSample(std::string name, std::vector<int64_t> shape) {
  std::vector<int64_t> channels{shape[1]};
  return {"batch_norm_statistics_" + name,
          {floats(shape), floats(channels), floats(channels, 0.5, 2)},
          [](TapeBuilder &t, ValueRange x) -> Value {
            return t.builder().create<BatchNormStatisticsOp>(t.loc(), x[0], x[1], x[2], APFloat(kMomentum)).getMean();
          },
          [=](const Arrays &x) { return statistics(shape, x); },
          {0, 1}};
}

Sample normaliseSample(std::string name, std::vector<int64_t> shape) {
  std::vector<int64_t> channels{shape[1]};
  return {"batch_norm_" + name,
          {floats(shape), floats(channels), floats(channels, 0.5, 2), floats(channels), floats(channels)},
          [](TapeBuilder &t, ValueRange x) -> Value {
            return t.builder().create<BatchNormOp>(t.loc(), x[0], x[1], x[2], x[3], x[4], APFloat(kEpsilon));
          },
          [=](const Arrays &x) {
            Arrays result(1, Doubles(x[0].size()));
            forEach(shape, [&](size_t i, size_t c) {
              result[0][i] = (x[0][i] - x[1][c]) / std::sqrt(x[2][c] + kEpsilon) * x[3][c] + x[4][c];
            });
            return result;
          }};
}

Sample groupSample(std::string name, std::vector<int64_t> shape, int64_t groups) {
  std::vector<int64_t> channels{shape[1]};
  return {"group_norm_" + name,
          {floats(shape), floats(channels), floats(channels)},
          [=](TapeBuilder &t, ValueRange x) -> Value {
            return t.builder().create<GroupNormOp>(t.loc(), x[0], x[1], x[2], groups, APFloat(kEpsilon)).getResult();
          },
          [=](const Arrays &x) {
            size_t rows = shape[0] * groups, width = x[0].size() / rows;
            Arrays result{Doubles(x[0].size()), Doubles(rows), Doubles(rows)};
            for (size_t row = 0; row < rows; ++row) {
              double variance = 0;
              for (size_t i = row * width; i < (row + 1) * width; ++i)
                result[1][row] += x[0][i] / width;
              for (size_t i = row * width; i < (row + 1) * width; ++i)
                variance += std::pow(x[0][i] - result[1][row], 2) / width;
              result[2][row] = 1 / std::sqrt(variance + kEpsilon);
            }
            forEach(shape, [&](size_t i, size_t c) {
              result[0][i] = (x[0][i] - result[1][i / width]) * result[2][i / width] * x[1][c] + x[2][c];
            });
            return result;
          }};
}
} // namespace

std::vector<Sample> batchNormSamples() {
  const std::vector<int64_t> shape{3, 2, 2, 5};
  return {
      statisticsSample("planes", shape),
      statisticsSample("rows", {5, 3}),
      normaliseSample("planes", shape),
      normaliseSample("rows", {4, 3}),
      {"batch_norm_sums",
       {floats(shape), floats({2}), floats({2}, 0.5, 2), floats(shape)},
       [](TapeBuilder &t, ValueRange x) -> Value {
         return t.builder().create<BatchNormSumsOp>(t.loc(), x[0], x[1], x[2], x[3], APFloat(kEpsilon)).getSum();
       },
       [=](const Arrays &x) {
         Arrays result(2, Doubles(2));
         forEach(shape, [&](size_t i, size_t c) {
           result[0][c] += x[3][i];
           result[1][c] += x[3][i] * (x[0][i] - x[1][c]) / std::sqrt(x[2][c] + kEpsilon);
         });
         return result;
       }},
      groupSample("two", {2, 4, 3, 2}, 2),
      groupSample("instance", {2, 3, 4, 4}, 3),
      groupSample("one", {3, 2, 5}, 1),
  };
}

} // namespace tapeout::ops
