// The errors that codegen/kernel/MathExpansion.h states, measured against double over the whole range of floats.
#include "tests/codegen/KernelTester.h"

#include <cfenv>
#include <cmath>

namespace tapeout::codegen {
namespace {

constexpr int64_t kStep = 9973; // every kStep-th float, as bits
constexpr int64_t kSamples = (1LL << 32) / kStep + 1;

// Distance in units in the last place of the exact value.
double ulps(float actual, double exact) {
  if (std::isnan(exact) || std::isnan(actual))
    return std::isnan(exact) && std::isnan(actual) ? 0 : INFINITY;
  float rounded = static_cast<float>(exact);
  if (std::isinf(rounded) || std::isinf(actual))
    return rounded == actual ? 0 : INFINITY;
  int exponent = std::max(std::ilogb(std::max(std::fabs(exact), 1e-300)), -126);
  return std::fabs(actual - exact) / std::ldexp(1.0, exponent - 23);
}

std::string unaryKernel(const std::string &name, const std::string &shape) {
  return "plan.kernel @" + name + (shape.empty() ? "_scalar" : "") + " { ^bb0(%x: tensor<" + shape +
         "f32>):\n  %y = tape." + name + " %x : tensor<" + shape + "f32>\n  tape.yield %y : tensor<" + shape +
         "f32> }\n";
}

struct Function {
  const char *name;
  double (*exact)(double);
  double bound;
};
const Function kFunctions[] = {{"exp", std::exp, 2}, {"log", std::log, 2}, {"tanh", std::tanh, 4}};

class MathTest : public testing::Test {
protected:
  static void SetUpTestSuite() {
    std::string text;
    for (const Function &function : kFunctions)
      text += unaryKernel(function.name, std::to_string(kSamples) + "x") + unaryKernel(function.name, "");
    text += substitute(R"(plan.kernel @gelu { ^bb0(%x: tensor<$xf32>):
      %y = tape.gelu %x {approximate = "none"} : tensor<$xf32>
      tape.yield %y : tensor<$xf32> })",
                       std::to_string(kSamples));
    kernels_ = new KernelTester(text, 2);
    for (int64_t i = 0; i < kSamples; ++i) {
      uint32_t bits = static_cast<uint32_t>(i * kStep);
      float value;
      std::memcpy(&value, &bits, 4);
      inputs_.push_back(value);
    }
    const float special[] = {0.0f,  -0.0f,    INFINITY, -INFINITY, NAN,     1.0f,
                             -1.0f, 88.7228f, 88.73f,   -87.4f,    -103.9f, -104.5f};
    std::copy(std::begin(special), std::end(special), inputs_.begin());
  }
  static void TearDownTestSuite() { delete kernels_; }
  void SetUp() override { ASSERT_TRUE(kernels_->loaded()) << kernels_->messages(); }

  static KernelTester *kernels_;
  static std::vector<float> inputs_;
};
KernelTester *MathTest::kernels_;
std::vector<float> MathTest::inputs_;

// Scores behind a mask are -infinity. An underflow is handled in microcode: softmax took four times as long.
TEST_F(MathTest, VanishingPowersDoNotUnderflow) {
  std::vector<float> hidden(kSamples, -INFINITY);
  for (size_t i = 0; i < hidden.size(); i += 2)
    hidden[i] = -104.01f - i;
  std::feclearexcept(FE_ALL_EXCEPT);
  auto result = kernels_->run("exp", {Tensor::of(hidden)}, {Tensor::empty<float>(kSamples)});
  EXPECT_FALSE(std::fetestexcept(FE_UNDERFLOW));
  ASSERT_EQ(result.size(), 1u);
  EXPECT_EQ(result[0].values<float>(), std::vector<float>(kSamples, 0.0f));
}

TEST_F(MathTest, ErrorsAreWithinTheStatedBounds) {
  for (const Function &function : kFunctions) {
    auto result = kernels_->run(function.name, {Tensor::of(inputs_)}, {Tensor::empty<float>(kSamples)});
    ASSERT_EQ(result.size(), 1u);
    std::vector<float> actual = result[0].values<float>();
    double worst = 0;
    float where = 0;
    for (int64_t i = 0; i < kSamples; ++i)
      if (double error = ulps(actual[i], function.exact(inputs_[i])); error > worst)
        worst = error, where = inputs_[i];
    EXPECT_LE(worst, function.bound) << function.name << " at " << where;
    RecordProperty(function.name, std::to_string(worst));
  }
}

TEST_F(MathTest, ScalarsHaveTheBitsOfVectors) {
  for (const Function &function : kFunctions) {
    auto vectors =
        kernels_->run(function.name, {Tensor::of(inputs_)}, {Tensor::empty<float>(kSamples)})[0].values<float>();
    for (int64_t i = 0; i < kSamples; i += 4001) {
      auto scalar = kernels_->run(function.name + std::string("_scalar"), {Tensor::of(std::vector<float>{inputs_[i]})},
                                  {Tensor::empty<float>(1)});
      EXPECT_TRUE(scalar[0].sameBits(Tensor::of(std::vector<float>{vectors[i]})))
          << function.name << " at " << inputs_[i];
    }
  }
}

TEST_F(MathTest, ErfIsWithinTheStatedBound) {
  std::vector<float> actual = runErf(inputs_);
  for (int64_t i = 0; i < kSamples; ++i)
    ASSERT_LE(ulps(actual[i], std::erf(double(inputs_[i]))), 4) << inputs_[i];
}

TEST_F(MathTest, GeluIsUsableInBothTails) {
  auto actual = kernels_->run("gelu", {Tensor::of(inputs_)}, {Tensor::empty<float>(kSamples)})[0].values<float>();
  for (int64_t i = 0; i < kSamples; ++i)
    if (double x = inputs_[i]; std::fabs(x) < 1e30) {
      ASSERT_NEAR(actual[i], 0.5 * x * std::erfc(-x * M_SQRT1_2), 3e-7 * std::fabs(x) + 1e-44) << x;
    }
}

} // namespace
} // namespace tapeout::codegen
