// Poolings against plain loops over windows.
#include "runtime/device/cpu/Pooling.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <vector>

namespace tapeout::rt {
namespace {

struct Case {
  const char *name;
  WindowShape window;
};

WindowShape square(int64_t height, int64_t width, int64_t kernel, int64_t stride, int64_t pad) {
  return {.height = height,
          .width = width,
          .kernelHeight = kernel,
          .kernelWidth = kernel,
          .outHeight = (height + 2 * pad - kernel) / stride + 1,
          .outWidth = (width + 2 * pad - kernel) / stride + 1,
          .strideY = stride,
          .strideX = stride,
          .padTop = pad,
          .padLeft = pad};
}

const Case kCases[] = {{"Halves", square(28, 28, 2, 2, 0)},      {"Odd", square(7, 9, 2, 2, 0)},
                       {"Overlapping", square(11, 14, 3, 2, 1)}, {"Dense", square(6, 20, 3, 1, 1)},
                       {"Thirds", square(9, 10, 3, 3, 0)},       {"Whole", square(4, 4, 4, 1, 0)}};
constexpr int64_t kPlanes = 5;

class PoolingTest : public testing::TestWithParam<Case> {
protected:
  using Floats = std::vector<float>;

  static Floats random(int64_t count, bool rounded) {
    std::mt19937 engine(3);
    std::uniform_real_distribution<float> uniform(-2, 2);
    Floats values(count);
    for (float &value : values)
      value = rounded ? std::round(uniform(engine)) : uniform(engine); // rounded: many ties
    return values;
  }

  /// visit(output, input, tap) for every element of every window, in order.
  template <typename Visit> void forEachElement(Visit visit) const {
    for (int64_t plane = 0; plane < kPlanes; ++plane)
      for (int64_t i = 0; i < w_.outHeight * w_.outWidth; ++i)
        for (int64_t t = 0; t < w_.kernelHeight * w_.kernelWidth; ++t) {
          int64_t y = i / w_.outWidth * w_.strideY + t / w_.kernelWidth - w_.padTop;
          int64_t x = i % w_.outWidth * w_.strideX + t % w_.kernelWidth - w_.padLeft;
          if (y >= 0 && y < w_.height && x >= 0 && x < w_.width)
            visit(plane * w_.outHeight * w_.outWidth + i, (plane * w_.height + y) * w_.width + x, t);
        }
  }

  WindowShape w_ = GetParam().window;
  int64_t inputs_ = kPlanes * w_.height * w_.width, outputs_ = kPlanes * w_.outHeight * w_.outWidth;
  ThreadPool pool_{2};
};

TEST_P(PoolingTest, MaximumTakesTheFirstOfEqualElements) {
  Floats x = random(inputs_, true), dy = random(outputs_, false), y(outputs_, NAN), dx(inputs_, NAN);
  std::vector<int32_t> index(outputs_);
  poolMaximum(w_, kPlanes, x.data(), y.data(), index.data(), pool_);
  poolMaximumGradient(w_, kPlanes, index.data(), dy.data(), dx.data(), pool_);

  Floats best(outputs_, -INFINITY), expected(inputs_, 0.0f);
  std::vector<int64_t> source(outputs_), tap(outputs_);
  forEachElement([&](int64_t output, int64_t input, int64_t t) {
    if (x[input] > best[output])
      best[output] = x[input], source[output] = input, tap[output] = t;
  });
  for (int64_t i = 0; i < outputs_; ++i) {
    EXPECT_EQ(y[i], best[i]);
    EXPECT_EQ(index[i], tap[i]);
    expected[source[i]] += dy[i];
  }
  for (int64_t i = 0; i < inputs_; ++i)
    EXPECT_NEAR(dx[i], expected[i], 1e-6) << i;
}

TEST_P(PoolingTest, MaximumPassesNanOn) {
  Floats x(inputs_, NAN), y(outputs_, 0.0f);
  std::vector<int32_t> index(outputs_);
  poolMaximum(w_, kPlanes, x.data(), y.data(), index.data(), pool_);
  for (float value : y)
    EXPECT_TRUE(std::isnan(value));
}

TEST_P(PoolingTest, AverageDividesByTheWindow) {
  Floats x = random(inputs_, false), dy = random(outputs_, false), y(outputs_, NAN), dx(inputs_, NAN);
  poolAverage(w_, kPlanes, x.data(), y.data(), pool_);
  poolAverageGradient(w_, kPlanes, dy.data(), dx.data(), pool_);
  std::vector<double> sums(outputs_), gradients(inputs_);
  double size = static_cast<double>(w_.kernelHeight * w_.kernelWidth);
  forEachElement([&](int64_t output, int64_t input, int64_t) {
    sums[output] += x[input] / size;
    gradients[input] += dy[output] / size;
  });
  for (int64_t i = 0; i < outputs_; ++i)
    EXPECT_NEAR(y[i], sums[i], 1e-6);
  for (int64_t i = 0; i < inputs_; ++i)
    EXPECT_NEAR(dx[i], gradients[i], 1e-6);
}

INSTANTIATE_TEST_SUITE_P(All, PoolingTest, testing::ValuesIn(kCases),
                         [](const auto &info) { return std::string(info.param.name); });

} // namespace
} // namespace tapeout::rt
