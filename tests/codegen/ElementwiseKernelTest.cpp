// Elementwise and injective kernels, alone and fused, at sizes around the vector length.
#include "tests/codegen/KernelTester.h"

#include "runtime/base/Philox.h"

#include <cmath>

namespace tapeout::codegen {
namespace {

const int64_t kSizes[] = {1, 15, 17, 63, 1000, 10007};

std::string sized() {
  std::string text;
  for (int64_t size : kSizes)
    text += substitute(R"(
plan.kernel @add_$ { ^bb0(%a: tensor<$xf32>, %b: tensor<$xf32>):
  %r = tape.add %a, %b : tensor<$xf32>, tensor<$xf32>
  tape.yield %r : tensor<$xf32> }
plan.kernel @mask_$ { ^bb0(%a: tensor<$xf32>, %b: tensor<f32>):
  %m = tape.compare "lt" %a, %b : tensor<$xf32>, tensor<f32>
  tape.yield %m : tensor<$xi1> }
plan.kernel @pick_$ { ^bb0(%m: tensor<$xi1>, %a: tensor<$xf32>, %b: tensor<f32>):
  %r = tape.select %m, %a, %b : tensor<$xi1>, tensor<$xf32>, tensor<f32>
  tape.yield %r : tensor<$xf32> }
plan.kernel @momentum_$ { ^bb0(%p: tensor<$xf32>, %g: tensor<$xf32>, %m: tensor<$xf32>,
                              %lr: tensor<f64>, %wd: tensor<f64>, %mu: tensor<f64>):
  %r:2 = tape.sgd_momentum %p, %g, %m, %lr, %wd, %mu {nesterov = false}
    : (tensor<$xf32>, tensor<$xf32>, tensor<$xf32>, tensor<f64>, tensor<f64>, tensor<f64>)
      -> (tensor<$xf32>, tensor<$xf32>)
  tape.yield %r#0, %r#1 : tensor<$xf32>, tensor<$xf32> }
plan.kernel @dropout_$ { ^bb0(%a: tensor<$xf32>, %seed: tensor<i64>, %step: tensor<i64>):
  %r = tape.dropout %a rate 2.5e-01 random %seed, %step {stream = 7 : i64} : tensor<$xf32>
  tape.yield %r : tensor<$xf32> }
plan.kernel @f64_$ { ^bb0(%a: tensor<$xf64>):
  %r = tape.exp %a : tensor<$xf64>
  tape.yield %r : tensor<$xf64> }
)",
                       std::to_string(size));
  return text;
}

const char *kOthers = R"(
plan.kernel @constant { ^bb0:
  %c = tape.constant 2.5 to f32
  tape.yield %c : tensor<f32> }
plan.kernel @iota { ^bb0:
  %r = tape.iota dim 1 of [3, 5, 7]
  tape.yield %r : tensor<3x5x7xi32> }
plan.kernel @transpose { ^bb0(%a: tensor<19x37xf32>):
  %r = tape.transpose %a by [1, 0] : tensor<19x37xf32>
  tape.yield %r : tensor<37x19xf32> }
plan.kernel @exp { ^bb0(%a: tensor<2x300x530xf64>):
  %e = tape.exp %a : tensor<2x300x530xf64>
  %r = tape.transpose %e by [0, 2, 1] : tensor<2x300x530xf64>
  tape.yield %r : tensor<2x530x300xf64> }
plan.kernel @swap { ^bb0(%a: tensor<2x300x530xf32>):
  %r = tape.transpose %a by [0, 2, 1] : tensor<2x300x530xf32>
  tape.yield %r : tensor<2x530x300xf32> }
plan.kernel @heads { ^bb0(%a: tensor<2x5x3x20xi32>):
  %r = tape.transpose %a by [0, 2, 1, 3] : tensor<2x5x3x20xi32>
  tape.yield %r : tensor<2x3x5x20xi32> }
plan.kernel @fill { ^bb0(%a: tensor<f32>):
  %r = tape.broadcast_in_dim %a to [7, 11] dims [] : tensor<f32>
  tape.yield %r : tensor<7x11xf32> }
plan.kernel @columns { ^bb0(%a: tensor<7xf32>):
  %r = tape.broadcast_in_dim %a to [7, 35] dims [0] : tensor<7xf32>
  tape.yield %r : tensor<7x35xf32> }
plan.kernel @field { ^bb0(%c: tensor<16xf64>):
  %r = tape.hyperparameter %c[3] : tensor<16xf64>
  tape.yield %r : tensor<f64> }
plan.kernel @correction { ^bb0(%t: tensor<i64>, %beta: tensor<f64>):
  %r = tape.bias_correction %t, %beta : (tensor<i64>, tensor<f64>) -> tensor<f64>
  tape.yield %r : tensor<f64> }
plan.kernel @widen { ^bb0(%a: tensor<33xi1>):
  %r = tape.convert %a to i64 : tensor<33xi1>
  tape.yield %r : tensor<33xi64> }
plan.kernel @functions { ^bb0(%x: tensor<4099xf32>):
  %0 = tape.exp %x : tensor<4099xf32>
  %1 = tape.log %x : tensor<4099xf32>
  %2 = tape.tanh %x : tensor<4099xf32>
  %3 = tape.logistic %x : tensor<4099xf32>
  %4 = tape.softplus %x : tensor<4099xf32>
  %5 = tape.gelu %x {approximate = "none"} : tensor<4099xf32>
  %6 = tape.gelu %x {approximate = "tanh"} : tensor<4099xf32>
  %7 = tape.rsqrt %x : tensor<4099xf32>
  tape.yield %0, %1, %2, %3, %4, %5, %6, %7 : tensor<4099xf32>, tensor<4099xf32>, tensor<4099xf32>, tensor<4099xf32>, tensor<4099xf32>, tensor<4099xf32>, tensor<4099xf32>, tensor<4099xf32> }
plan.kernel @fused { ^bb0(%x: tensor<3x5x24xf32>, %bias: tensor<24xf32>, %scale: tensor<f32>, %y: tensor<15x24xf32>):
  %b = tape.broadcast_in_dim %bias to [3, 5, 24] dims [2] : tensor<24xf32>
  %s = tape.add %x, %b : tensor<3x5x24xf32>, tensor<3x5x24xf32>
  %two = tape.constant 2.0 to f32
  %k = tape.multiply %scale, %two : tensor<f32>, tensor<f32>
  %m = tape.multiply %s, %k : tensor<3x5x24xf32>, tensor<f32>
  %t = tape.transpose %m by [1, 0, 2] : tensor<3x5x24xf32>
  %f = tape.reshape %t to [15, 24] : tensor<5x3x24xf32>
  %r = tape.subtract %f, %y : tensor<15x24xf32>, tensor<15x24xf32>
  %sq = tape.multiply %r, %r : tensor<15x24xf32>, tensor<15x24xf32>
  tape.yield %r, %sq : tensor<15x24xf32>, tensor<15x24xf32> }
)";

class ElementwiseKernelTest : public testing::Test {
protected:
  static void SetUpTestSuite() { kernels_ = new KernelTester(sized() + kOthers, 2); }
  static void TearDownTestSuite() { delete kernels_; }
  void SetUp() override { ASSERT_TRUE(kernels_->loaded()) << kernels_->messages(); }
  static std::vector<Tensor> run(const std::string &symbol, const std::vector<Tensor> &operands,
                                 const std::vector<Tensor> &results, const std::vector<int> &inPlace = {}) {
    return kernels_->run(symbol, operands, results, inPlace);
  }
  static KernelTester *kernels_;
};
KernelTester *ElementwiseKernelTest::kernels_;

TEST_F(ElementwiseKernelTest, AddsInPlaceOrNot) {
  for (int64_t n : kSizes) {
    auto a = randomFloats(n, -2, 2, 1), b = randomFloats(n, -2, 2, 2);
    for (std::vector<int> inPlace : {std::vector<int>{}, std::vector<int>{1}}) {
      auto result = run("add_" + std::to_string(n), {Tensor::of(a), Tensor::of(b)}, {Tensor::empty<float>(n)}, inPlace);
      auto sum = result[0].values<float>();
      for (int64_t i = 0; i < n; ++i)
        ASSERT_EQ(sum[i], a[i] + b[i]) << n << " " << i;
    }
  }
}

TEST_F(ElementwiseKernelTest, BoolsAreBytes) {
  for (int64_t n : kSizes) {
    auto a = randomFloats(n, -2, 2);
    a[0] = NAN;
    Tensor bound = Tensor::of(std::vector<float>{0.5f});
    auto mask = run("mask_" + std::to_string(n), {Tensor::of(a), bound}, {Tensor::empty<uint8_t>(n)});
    auto bytes = mask[0].values<uint8_t>();
    auto picked = run("pick_" + std::to_string(n), {mask[0], Tensor::of(a), bound}, {Tensor::empty<float>(n)});
    auto values = picked[0].values<float>();
    for (int64_t i = 0; i < n; ++i) {
      ASSERT_EQ(bytes[i], a[i] < 0.5f) << n << " " << i;
      ASSERT_EQ(values[i], a[i] < 0.5f ? a[i] : 0.5f) << n << " " << i;
    }
  }
}

TEST_F(ElementwiseKernelTest, SeveralResultsUpdateInPlace) {
  for (int64_t n : kSizes) {
    auto p = randomFloats(n, -1, 1, 1), g = randomFloats(n, -1, 1, 2), m = randomFloats(n, -1, 1, 3);
    auto scalar = [](double value) { return Tensor::of(std::vector<double>{value}); };
    auto result = run("momentum_" + std::to_string(n),
                      {Tensor::of(p), Tensor::of(g), Tensor::of(m), scalar(0.1), scalar(0.01), scalar(0.9)},
                      {Tensor::empty<float>(n), Tensor::empty<float>(n)}, {0, 2});
    std::vector<double> newP(n), newM(n);
    for (int64_t i = 0; i < n; ++i) {
      newM[i] = 0.9 * m[i] + (g[i] + 0.01 * p[i]);
      newP[i] = p[i] - 0.1 * newM[i];
    }
    expectNear(result[0].values<float>(), newP, 1e-6, 1e-6, "parameter");
    expectNear(result[1].values<float>(), newM, 1e-6, 1e-6, "buffer");
  }
}

TEST_F(ElementwiseKernelTest, DropoutIsKeyedByTheElementIndex) {
  for (int64_t n : kSizes) {
    auto x = randomFloats(n, 1, 2);
    const int64_t seed = 0x123456789abcdef, step = 42;
    auto result = run("dropout_" + std::to_string(n),
                      {Tensor::of(x), Tensor::of(std::vector<int64_t>{seed}), Tensor::of(std::vector<int64_t>{step})},
                      {Tensor::empty<float>(n)});
    auto values = result[0].values<float>();
    for (int64_t i = 0; i < n; ++i) {
      uint32_t word = philox4x32({uint32_t(i), 0, uint32_t(step), 7}, philoxKey(seed))[0];
      float expected = word >= uint32_t(0.25 * 4294967296.0) ? x[i] * float(1 / 0.75) : 0.0f;
      ASSERT_EQ(values[i], expected) << n << " " << i;
    }
  }
}

TEST_F(ElementwiseKernelTest, F64FunctionsAreExact) {
  for (int64_t n : kSizes) {
    auto floats = randomFloats(n, -5, 5);
    std::vector<double> x(floats.begin(), floats.end());
    auto values = run("f64_" + std::to_string(n), {Tensor::of(x)}, {Tensor::empty<double>(n)})[0].values<double>();
    for (int64_t i = 0; i < n; ++i)
      ASSERT_DOUBLE_EQ(values[i], std::exp(x[i]));
  }
}

TEST_F(ElementwiseKernelTest, ConstantsAndIndices) {
  EXPECT_EQ(run("constant", {}, {Tensor::empty<float>(1)})[0].values<float>()[0], 2.5f);
  auto iota = run("iota", {}, {Tensor::empty<int32_t>(105)})[0].values<int32_t>();
  for (int i = 0; i < 105; ++i)
    ASSERT_EQ(iota[i], i / 7 % 5);
  std::vector<double> config(16);
  config[3] = 0.25;
  EXPECT_EQ(run("field", {Tensor::of(config)}, {Tensor::empty<double>(1)})[0].values<double>()[0], 0.25);
  auto correction = run("correction", {Tensor::of(std::vector<int64_t>{9}), Tensor::of(std::vector<double>{0.999})},
                        {Tensor::empty<double>(1)});
  EXPECT_DOUBLE_EQ(correction[0].values<double>()[0], 1 - std::pow(0.999, 10));
}

TEST_F(ElementwiseKernelTest, ConvertsBools) {
  std::vector<uint8_t> bools(33);
  for (int i = 0; i < 33; ++i)
    bools[i] = i % 3 == 0;
  auto wide = run("widen", {Tensor::of(bools)}, {Tensor::empty<int64_t>(33)})[0].values<int64_t>();
  for (int i = 0; i < 33; ++i)
    ASSERT_EQ(wide[i], i % 3 == 0);
}

TEST_F(ElementwiseKernelTest, MovesElements) {
  auto a = randomFloats(19 * 37, -1, 1);
  auto transposed = run("transpose", {Tensor::of(a)}, {Tensor::empty<float>(19 * 37)})[0].values<float>();
  for (int r = 0; r < 19; ++r)
    for (int c = 0; c < 37; ++c)
      ASSERT_EQ(transposed[c * 19 + r], a[r * 37 + c]);

  auto large = randomFloats(2 * 300 * 530, -1, 1);
  auto swap = run("swap", {Tensor::of(large)}, {Tensor::empty<float>(large.size())})[0].values<float>();
  auto wide = run("exp", {Tensor::of(std::vector<double>(large.begin(), large.end()))},
                  {Tensor::empty<double>(large.size())})[0]
                  .values<double>();
  for (int b = 0; b < 2; ++b)
    for (int r = 0; r < 300; ++r)
      for (int c = 0; c < 530; ++c) {
        float from = large[(b * 300 + r) * 530 + c];
        int to = (b * 530 + c) * 300 + r;
        ASSERT_EQ(swap[to], from) << b << " " << r << " " << c;
        ASSERT_DOUBLE_EQ(wide[to], std::exp(double(from)));
      }

  std::vector<int32_t> heads(2 * 5 * 3 * 20);
  std::iota(heads.begin(), heads.end(), 0);
  auto swapped = run("heads", {Tensor::of(heads)}, {Tensor::empty<int32_t>(heads.size())})[0].values<int32_t>();
  for (int i = 0; i < 600; ++i) {
    int d = i % 20, t = i / 20 % 5, h = i / 100 % 3, b = i / 300;
    ASSERT_EQ(swapped[i], ((b * 5 + t) * 3 + h) * 20 + d);
  }

  auto filled = run("fill", {Tensor::of(std::vector<float>{3.5f})}, {Tensor::empty<float>(77)})[0].values<float>();
  EXPECT_EQ(filled, std::vector<float>(77, 3.5f));
  auto rows = randomFloats(7, -1, 1);
  auto columns = run("columns", {Tensor::of(rows)}, {Tensor::empty<float>(7 * 35)})[0].values<float>();
  for (int i = 0; i < 7 * 35; ++i)
    ASSERT_EQ(columns[i], rows[i / 35]);
}

TEST_F(ElementwiseKernelTest, EveryTargetGivesTheSameBits) {
  std::vector<float> x(4099);
  for (size_t i = 0; i < x.size(); ++i)
    x[i] = std::ldexp(1.0f + (i % 64) / 64.0f, static_cast<int>(i / 64) - 48); // 2^-48 to 2^16, all positive
  uint64_t hash = 14695981039346656037u; // FNV-1a
  for (float sign : {1.0f, -1.0f}) {
    std::vector<float> inputs(x);
    for (float &input : inputs)
      input *= sign;
    for (const Tensor &result : run("functions", {Tensor::of(inputs)}, std::vector<Tensor>(8, Tensor::empty<float>(4099))))
      for (float value : result.values<float>()) {
        uint32_t bits = 0; // of every NaN
        if (!std::isnan(value))
          std::memcpy(&bits, &value, sizeof bits);
        hash = (hash ^ bits) * 1099511628211u;
      }
  }
  EXPECT_EQ(hash, 11342667285360660583u);
}

TEST_F(ElementwiseKernelTest, FusedOpsShareOneLoop) {
  auto x = randomFloats(360, -1, 1, 1), bias = randomFloats(24, -1, 1, 2), y = randomFloats(360, -1, 1, 3);
  auto result = run("fused", {Tensor::of(x), Tensor::of(bias), Tensor::of(std::vector<float>{1.5f}), Tensor::of(y)},
                    {Tensor::empty<float>(360), Tensor::empty<float>(360)}, {3, -1});
  std::vector<double> difference(360), square(360);
  for (int i = 0; i < 360; ++i) {
    int c = i % 24, a = i / 24 % 3, b = i / 72;
    difference[i] = (double(x[(a * 5 + b) * 24 + c]) + bias[c]) * 3.0 - y[i];
    square[i] = difference[i] * difference[i];
  }
  expectNear(result[0].values<float>(), difference, 1e-6, 1e-6, "difference");
  expectNear(result[1].values<float>(), square, 1e-5, 1e-6, "square");
}

} // namespace
} // namespace tapeout::codegen
