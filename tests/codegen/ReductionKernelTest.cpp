// Row and column reductions at sizes around vectors and blocks, with computed operands.
#include "runtime/base/BFloat16.h"
#include "tests/codegen/KernelTester.h"

#include <algorithm>
#include <cmath>

namespace tapeout::codegen {
namespace {

const int64_t kSizes[] = {1, 15, 17, 63, 64, 200, 1000};
const int64_t kLongSizes[] = {100, 4096, 5001, 40007};
const int64_t kLongSizes16[] = {40007, 40008}; // cuda keeps them in shared memory, in vectors of 1 and of 8

std::string kernels() {
  std::string text;
  for (int64_t size : kSizes)
    text += substitute(R"(
plan.kernel @rows_$ { ^bb0(%a: tensor<5x$xf32>):
  %r = tape.reduce "sum" %a over [1] : tensor<5x$xf32>
  tape.yield %r : tensor<5xf32> }
plan.kernel @rowmax_$ { ^bb0(%a: tensor<5x$xf32>):
  %r = tape.reduce "max" %a over [1] : tensor<5x$xf32>
  tape.yield %r : tensor<5xf32> }
plan.kernel @columns_$ { ^bb0(%a: tensor<2x300x$xf32>):
  %r = tape.reduce "sum" %a over [1] : tensor<2x300x$xf32>
  tape.yield %r : tensor<2x$xf32> }
plan.kernel @columnmax_$ { ^bb0(%a: tensor<2x300x$xf32>):
  %r = tape.reduce "max" %a over [1] : tensor<2x300x$xf32>
  tape.yield %r : tensor<2x$xf32> }
plan.kernel @all_$ { ^bb0(%a: tensor<$xf32>):
  %r = tape.reduce "sum" %a over [0] : tensor<$xf32>
  tape.yield %r : tensor<f32> }
plan.kernel @expsum_$ { ^bb0(%a: tensor<5x$xf32>, %m: tensor<5xf32>):
  %b = tape.broadcast_in_dim %m to [5, $] dims [0] : tensor<5xf32>
  %d = tape.subtract %a, %b : tensor<5x$xf32>, tensor<5x$xf32>
  %e = tape.exp %d : tensor<5x$xf32>
  %s = tape.reduce "sum" %e over [1] : tensor<5x$xf32>
  %t = tape.reduce "max" %d over [1] : tensor<5x$xf32>
  tape.yield %s, %t : tensor<5xf32>, tensor<5xf32> }
plan.kernel @product_$ { ^bb0(%a: tensor<4x75x$xf32>, %b: tensor<4x75x$xf32>):
  %p = tape.multiply %a, %b : tensor<4x75x$xf32>, tensor<4x75x$xf32>
  %g = tape.reduce "sum" %p over [0, 1] : tensor<4x75x$xf32>
  %h = tape.reduce "sum" %b over [0, 1] : tensor<4x75x$xf32>
  tape.yield %g, %h : tensor<$xf32>, tensor<$xf32> }
)",
                       std::to_string(size));
  for (int64_t size : kLongSizes)
    text += substitute(R"(
plan.kernel @softmax_$ { ^bb0(%x: tensor<3x$xf32>):
  %m = tape.reduce "max" %x over [1] : tensor<3x$xf32>
  %mb = tape.broadcast_in_dim %m to [3, $] dims [0] : tensor<3xf32>
  %d = tape.subtract %x, %mb : tensor<3x$xf32>, tensor<3x$xf32>
  %e = tape.exp %d : tensor<3x$xf32>
  %s = tape.reduce "sum" %e over [1] : tensor<3x$xf32>
  %sb = tape.broadcast_in_dim %s to [3, $] dims [0] : tensor<3xf32>
  %y = tape.divide %e, %sb : tensor<3x$xf32>, tensor<3x$xf32>
  tape.yield %y, %s : tensor<3x$xf32>, tensor<3xf32> }
)",
                       std::to_string(size));
  for (int64_t size : kLongSizes16)
    text += substitute(R"(
plan.kernel @softmax16_$ { ^bb0(%x: tensor<3x$xbf16>):
  %w = tape.convert %x to f32 : tensor<3x$xbf16>
  %m = tape.reduce "max" %w over [1] : tensor<3x$xf32>
  %mb = tape.broadcast_in_dim %m to [3, $] dims [0] : tensor<3xf32>
  %d = tape.subtract %w, %mb : tensor<3x$xf32>, tensor<3x$xf32>
  %e = tape.exp %d : tensor<3x$xf32>
  %s = tape.reduce "sum" %e over [1] : tensor<3x$xf32>
  %y = tape.convert %e to bf16 : tensor<3x$xf32>
  tape.yield %y, %s : tensor<3x$xbf16>, tensor<3xf32> }
)",
                       std::to_string(size));
  return text + R"(
plan.kernel @pieces { ^bb0(%a: tensor<3x4x33xf32>, %b: tensor<33xf32>):
  %c = tape.broadcast_in_dim %b to [3, 4, 33] dims [2] : tensor<33xf32>
  %p = tape.multiply %a, %c : tensor<3x4x33xf32>, tensor<3x4x33xf32>
  %r = tape.reduce "sum" %p over [1, 2] : tensor<3x4x33xf32>
  tape.yield %r : tensor<3xf32> }
plan.kernel @f64 { ^bb0(%a: tensor<2x37xf64>):
  %r = tape.reduce "sum" %a over [1] : tensor<2x37xf64>
  tape.yield %r : tensor<2xf64> }
plan.kernel @ints { ^bb0(%a: tensor<2x37xi32>):
  %r = tape.reduce "max" %a over [1] : tensor<2x37xi32>
  tape.yield %r : tensor<2xi32> }
plan.kernel @long { ^bb0(%a: tensor<100000x3xf32>):
  %r = tape.reduce "sum" %a over [0] : tensor<100000x3xf32>
  tape.yield %r : tensor<3xf32> }
)";
}

class ReductionKernelTest : public testing::Test {
protected:
  static void SetUpTestSuite() { kernels_ = new KernelTester(kernels(), 2); }
  static void TearDownTestSuite() { delete kernels_; }
  void SetUp() override { ASSERT_TRUE(kernels_->loaded()) << kernels_->messages(); }
  static std::vector<float> run(const std::string &name, int64_t size, const std::vector<float> &input,
                                int64_t results) {
    auto result =
        kernels_->run(name + "_" + std::to_string(size), {Tensor::of(input)}, {Tensor::empty<float>(results)});
    return result.empty() ? std::vector<float>() : result[0].values<float>();
  }
  static KernelTester *kernels_;
};
KernelTester *ReductionKernelTest::kernels_;

TEST_F(ReductionKernelTest, Rows) {
  for (int64_t n : kSizes) {
    auto a = randomFloats(5 * n, -2, -1);
    std::vector<double> sums(5, 0.0), maxima(5, -INFINITY);
    for (int64_t i = 0; i < 5 * n; ++i) {
      sums[i / n] += a[i];
      maxima[i / n] = std::max<double>(maxima[i / n], a[i]);
    }
    expectNear(run("rows", n, a, 5), sums, 1e-6, 0, "sum of rows of " + std::to_string(n));
    expectNear(run("rowmax", n, a, 5), maxima, 0, 0, "maximum of rows of " + std::to_string(n));
    expectNear(run("all", n, std::vector<float>(a.begin(), a.begin() + n), 1), {sums[0]}, 1e-6, 0, "sum of all");
  }
}

TEST_F(ReductionKernelTest, Columns) {
  for (int64_t n : kSizes) {
    auto a = randomFloats(2 * 300 * n, -2, -1);
    std::vector<double> sums(2 * n, 0.0), maxima(2 * n, -INFINITY);
    for (int64_t i = 0; i < 600 * n; ++i) {
      int64_t to = i / (300 * n) * n + i % n;
      sums[to] += a[i];
      maxima[to] = std::max<double>(maxima[to], a[i]);
    }
    expectNear(run("columns", n, a, 2 * n), sums, 2e-6, 0, "sum of columns of " + std::to_string(n));
    expectNear(run("columnmax", n, a, 2 * n), maxima, 0, 0, "maximum of columns of " + std::to_string(n));
  }
}

TEST_F(ReductionKernelTest, ComputedOperandsAndSeveralResults) {
  for (int64_t n : kSizes) {
    auto a = randomFloats(5 * n, -2, 2, 1), m = randomFloats(5, -1, 1, 2);
    std::vector<double> sums(5, 0.0), maxima(5, -INFINITY);
    for (int64_t i = 0; i < 5 * n; ++i) {
      sums[i / n] += std::exp(double(a[i] - m[i / n]));
      maxima[i / n] = std::max<double>(maxima[i / n], a[i] - m[i / n]);
    }
    auto result = kernels_->run("expsum_" + std::to_string(n), {Tensor::of(a), Tensor::of(m)},
                                {Tensor::empty<float>(5), Tensor::empty<float>(5)});
    expectNear(result[0].values<float>(), sums, 1e-6, 0, "sum of exponentials");
    expectNear(result[1].values<float>(), maxima, 0, 0, "maximum of differences");

    auto x = randomFloats(300 * n, -1, 1, 3), y = randomFloats(300 * n, -1, 1, 4);
    std::vector<double> products(n, 0.0), plain(n, 0.0);
    for (int64_t i = 0; i < 300 * n; ++i) {
      products[i % n] += double(x[i]) * y[i];
      plain[i % n] += y[i];
    }
    result = kernels_->run("product_" + std::to_string(n), {Tensor::of(x), Tensor::of(y)},
                           {Tensor::empty<float>(n), Tensor::empty<float>(n)});
    expectNear(result[0].values<float>(), products, 1e-5, 1e-5, "sum of products");
    expectNear(result[1].values<float>(), plain, 1e-5, 1e-5, "second sum");
  }
}

TEST_F(ReductionKernelTest, ReducedDimensionsMayBeCut) {
  auto a = randomFloats(396, -1, 1, 1), b = randomFloats(33, -1, 1, 2);
  std::vector<double> sums(3, 0.0);
  for (int i = 0; i < 396; ++i)
    sums[i / 132] += double(a[i]) * b[i % 33];
  auto result = kernels_->run("pieces", {Tensor::of(a), Tensor::of(b)}, {Tensor::empty<float>(3)});
  expectNear(result[0].values<float>(), sums, 1e-5, 1e-5, "pieces");
}

TEST_F(ReductionKernelTest, OtherTypes) {
  auto floats = randomFloats(74, -1, 1);
  std::vector<double> doubles(floats.begin(), floats.end()), sums(2, 0.0);
  std::vector<int32_t> ints(74), maxima(2, INT32_MIN);
  for (int i = 0; i < 74; ++i) {
    sums[i / 37] += doubles[i];
    ints[i] = int32_t(floats[i] * 1000) - 2000;
    maxima[i / 37] = std::max(maxima[i / 37], ints[i]);
  }
  auto result = kernels_->run("f64", {Tensor::of(doubles)}, {Tensor::empty<double>(2)})[0].values<double>();
  EXPECT_NEAR(result[0], sums[0], 1e-12);
  EXPECT_NEAR(result[1], sums[1], 1e-12);
  EXPECT_EQ(kernels_->run("ints", {Tensor::of(ints)}, {Tensor::empty<int32_t>(2)})[0].values<int32_t>(), maxima);
}

TEST_F(ReductionKernelTest, LongRowsAreSummedAndWritten) {
  for (int64_t n : kLongSizes) {
    auto x = randomFloats(3 * n, -4, 4);
    std::vector<double> expected(3 * n), sums(3, 0.0);
    for (int64_t row = 0; row < 3; ++row) {
      auto begin = x.begin() + row * n;
      double max = *std::max_element(begin, begin + n);
      for (int64_t i = 0; i < n; ++i)
        sums[row] += expected[row * n + i] = std::exp(begin[i] - max);
      for (int64_t i = 0; i < n; ++i)
        expected[row * n + i] /= sums[row];
    }
    for (std::vector<int> inPlace : {std::vector<int>{}, std::vector<int>{0, -1}}) {
      auto result = kernels_->run("softmax_" + std::to_string(n), {Tensor::of(x)},
                                  {Tensor::empty<float>(3 * n), Tensor::empty<float>(3)}, inPlace);
      expectNear(result[0].values<float>(), expected, 2e-5, 0, "elements");
      expectNear(result[1].values<float>(), sums, 1e-5, 0, "sums");
    }
  }
}

TEST_F(ReductionKernelTest, LongRowsOf16BitsAreSummedAndWritten) {
  for (int64_t n : kLongSizes16) {
    std::vector<uint16_t> x;
    for (float value : randomFloats(3 * n, -4, 4))
      x.push_back(floatToBfloat16(value));
    std::vector<double> expected(3 * n), sums(3, 0.0);
    for (int64_t row = 0; row < 3; ++row) {
      double max = -INFINITY;
      for (int64_t i = row * n; i < (row + 1) * n; ++i)
        max = std::max<double>(max, bfloat16ToFloat(x[i]));
      for (int64_t i = row * n; i < (row + 1) * n; ++i)
        sums[row] += expected[i] = std::exp(bfloat16ToFloat(x[i]) - max);
    }
    for (std::vector<int> inPlace : {std::vector<int>{}, std::vector<int>{0, -1}}) {
      auto result = kernels_->run("softmax16_" + std::to_string(n), {Tensor::of(x)},
                                  {Tensor::empty<uint16_t>(3 * n), Tensor::empty<float>(3)}, inPlace);
      std::vector<float> elements;
      for (uint16_t bits : result[0].values<uint16_t>())
        elements.push_back(bfloat16ToFloat(bits));
      expectNear(elements, expected, 0x1.01p-8, 0, "elements");
      expectNear(result[1].values<float>(), sums, 1e-5, 0, "sums");
    }
  }
}

TEST_F(ReductionKernelTest, NotANumberIsTheMaximum) {
  std::vector<float> a(5 * 17, 1.0f);
  a[3] = NAN;
  std::fill(a.begin() + 17, a.begin() + 34, -INFINITY);
  auto result = run("rowmax", 17, a, 5);
  EXPECT_TRUE(std::isnan(result[0]));
  EXPECT_EQ(result[1], -INFINITY);
  EXPECT_EQ(result[2], 1.0f);
}

TEST_F(ReductionKernelTest, LongSumsStayAccurate) {
  std::vector<float> a(300000, 0.1f);
  auto result = kernels_->run("long", {Tensor::of(a)}, {Tensor::empty<float>(3)})[0].values<float>();
  expectNear(result, std::vector<double>(3, 100000 * double(0.1f)), 1e-5, 0, "100,000 rows");
}

} // namespace
} // namespace tapeout::codegen
