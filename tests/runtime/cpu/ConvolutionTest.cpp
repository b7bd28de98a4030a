// Convolutions against loops in double, for shapes that meet every path; the same bits for threads and instruction sets.
#include "runtime/device/cpu/Convolution.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <vector>

namespace tapeout::rt {
namespace {

struct Case {
  const char *name;
  int64_t batch, channels, filters, height, width, kernelHeight, kernelWidth, stride, pad;
  int64_t parts = 1;

  ConvolutionShape shape() const {
    WindowShape w;
    w.height = height;
    w.width = width;
    w.kernelHeight = kernelHeight;
    w.kernelWidth = kernelWidth;
    w.strideY = w.strideX = stride;
    w.padTop = w.padLeft = pad;
    w.outHeight = (height + 2 * pad - kernelHeight) / stride + 1;
    w.outWidth = (width + 2 * pad - kernelWidth) / stride + 1;
    return {batch, channels, filters, w};
  }
};

const Case kCases[] = {
    {"Lenet1", 3, 1, 32, 28, 28, 3, 3, 1, 1},
    {"Lenet2", 2, 32, 64, 14, 14, 3, 3, 1, 1, 3},
    {"Unpadded", 2, 5, 7, 9, 11, 3, 2, 1, 0},
    {"Strided", 2, 6, 20, 13, 11, 3, 3, 2, 1, 4},
    {"Stem", 1, 3, 17, 32, 30, 7, 7, 2, 3},
    {"Pointwise", 2, 24, 40, 7, 7, 1, 1, 1, 0},
    {"StridedPointwise", 2, 9, 18, 8, 7, 1, 1, 2, 0},
    {"Deep", 2, 130, 33, 4, 4, 3, 3, 1, 1},
    {"TwoRowTiles", 1, 4, 530, 5, 5, 3, 3, 1, 1},
    {"RowsOf4KiB", 1, 1024, 20, 3, 3, 1, 1, 1, 0},
    {"OnePixel", 5, 8, 12, 3, 3, 3, 3, 1, 0},
    {"WholeImage", 300, 4, 6, 2, 2, 2, 2, 1, 0, 7},
    {"StrideBeyondKernel", 1, 2, 3, 10, 10, 2, 2, 3, 0},
    {"MoreParts", 1, 2, 3, 3, 3, 3, 3, 1, 1, 20},
    {"LargePadding", 2, 3, 4, 4, 5, 5, 5, 1, 4},
};

using Floats = std::vector<float>;

class ConvolutionTest : public testing::TestWithParam<Case> {
protected:
  void SetUp() override {
    std::mt19937 random(7);
    std::uniform_real_distribution<float> uniform(-1, 1);
    for (Floats *values : {&x_, &w_, &dy_}) {
      values->resize(values == &x_ ? inputs() : values == &w_ ? weights() : outputs());
      for (float &value : *values)
        value = uniform(random);
    }
  }
  const WindowShape &window() const { return shape_.window; }
  int64_t inputs() const { return shape_.batch * shape_.channels * window().height * window().width; }
  int64_t outputs() const { return shape_.batch * shape_.filters * window().outHeight * window().outWidth; }
  int64_t weights() const { return shape_.filters * shape_.channels * window().kernelHeight * window().kernelWidth; }

  /// visit(x, w, y): indices of factors and of the result they belong to.
  template <typename Visit> void forEachProduct(Visit visit) const {
    const WindowShape &w = window();
    for (int64_t n = 0; n < shape_.batch; ++n)
      for (int64_t o = 0; o < shape_.filters; ++o)
        for (int64_t i = 0; i < w.outHeight * w.outWidth; ++i)
          for (int64_t c = 0; c < shape_.channels; ++c)
            for (int64_t t = 0; t < w.kernelHeight * w.kernelWidth; ++t) {
              int64_t y = i / w.outWidth * w.strideY + t / w.kernelWidth - w.padTop;
              int64_t x = i % w.outWidth * w.strideX + t % w.kernelWidth - w.padLeft;
              if (y >= 0 && y < w.height && x >= 0 && x < w.width)
                visit(((n * shape_.channels + c) * w.height + y) * w.width + x,
                      (o * shape_.channels + c) * w.kernelHeight * w.kernelWidth + t,
                      (n * shape_.filters + o) * w.outHeight * w.outWidth + i);
            }
  }

  struct Results {
    Floats y, dx, dw; // dw: the sum of its parts
    bool operator==(const Results &) const = default;
  };
  Results compute(CpuIsa isa, int threads) {
    ThreadPool pool(threads);
    auto workspace = GemmWorkspace::create(threads);
    int64_t parts = GetParam().parts;
    Results results{Floats(outputs(), NAN), Floats(inputs(), NAN), Floats(weights(), 0.0f)};
    Floats terms(parts * weights(), NAN);
    convolve(shape_, x_.data(), w_.data(), results.y.data(), isa, pool, *workspace);
    convolveInputGradient(shape_, dy_.data(), w_.data(), results.dx.data(), isa, pool, *workspace);
    convolveWeightGradient(shape_, parts, x_.data(), dy_.data(), terms.data(), isa, pool, *workspace);
    for (int64_t i = 0; i < parts * weights(); ++i)
      results.dw[i % weights()] += terms[i];
    return results;
  }

  static void expectNear(const Floats &actual, const std::vector<double> &expected, const char *what) {
    ASSERT_EQ(actual.size(), expected.size());
    double largest = 1;
    for (double value : expected)
      largest = std::max(largest, std::abs(value));
    for (size_t i = 0; i < actual.size(); ++i)
      ASSERT_NEAR(actual[i], expected[i], 1e-5 * largest) << what << " " << i;
  }

  ConvolutionShape shape_ = GetParam().shape();
  Floats x_, w_, dy_;
};

TEST_P(ConvolutionTest, EqualsLoops) {
  ASSERT_TRUE(verifyWindow(window()).isOk());
  std::vector<double> y(outputs()), dx(inputs()), dw(weights());
  forEachProduct([&](int64_t i, int64_t j, int64_t k) {
    y[k] += double(x_[i]) * w_[j];
    dx[i] += double(dy_[k]) * w_[j];
    dw[j] += double(dy_[k]) * x_[i];
  });
  Results results = compute(CpuIsa::Avx2, 1);
  expectNear(results.y, y, "y");
  expectNear(results.dx, dx, "dx");
  expectNear(results.dw, dw, "dw");
}

TEST_P(ConvolutionTest, HasTheSameBitsForThreadsAndInstructionSets) {
  Results results = compute(CpuIsa::Avx2, 1);
  EXPECT_TRUE(compute(CpuIsa::Avx2, 3) == results);
  if (auto isa = detectCpuIsa(); isa.isOk() && *isa == CpuIsa::Avx512) {
    EXPECT_TRUE(compute(CpuIsa::Avx512, 1) == results);
    EXPECT_TRUE(compute(CpuIsa::Avx512, 2) == results);
  }
}

INSTANTIATE_TEST_SUITE_P(All, ConvolutionTest, testing::ValuesIn(kCases),
                         [](const auto &info) { return std::string(info.param.name); });

TEST(WindowTest, RefusesWhatLeavesTheInput) {
  WindowShape good{.height = 5, .width = 5, .kernelHeight = 3, .kernelWidth = 3, .outHeight = 3, .outWidth = 3};
  EXPECT_TRUE(verifyWindow(good).isOk());
  for (int64_t WindowShape::*extent :
       {&WindowShape::height, &WindowShape::kernelWidth, &WindowShape::outHeight, &WindowShape::strideX})
    for (int64_t value : {int64_t(0), int64_t(-1), int64_t(1) << 40}) {
      WindowShape bad = good;
      bad.*extent = value;
      EXPECT_FALSE(verifyWindow(bad).isOk());
    }
  WindowShape bad = good;
  bad.padTop = 3;
  EXPECT_FALSE(verifyWindow(bad).isOk());
  bad = good;
  bad.outWidth = 6;
  EXPECT_FALSE(verifyWindow(bad).isOk());
}

} // namespace
} // namespace tapeout::rt
