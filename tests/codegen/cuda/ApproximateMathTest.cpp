// Kernels with 16-bit results: their functions against f64. The emulator's own exp2 and division are exact, so these tests
// are of what is built on them; the errors of the GPU's are documented (codegen/cuda/ApproximateMath.h) and far smaller.
#include "codegen/cuda/CudaCodegen.h"
#include "runtime/base/BFloat16.h"
#include "tests/codegen/KernelTester.h"

#include <cmath>
#include <functional>
#include <limits>

namespace tapeout::codegen {
namespace {

const char *kKernels = R"(
plan.kernel @exp { ^bb0(%a: tensor<4096xf32>):
  %r = tape.exp %a : tensor<4096xf32>
  %n = tape.convert %r to bf16 : tensor<4096xf32>
  tape.yield %n : tensor<4096xbf16> }
plan.kernel @tanh { ^bb0(%a: tensor<4096xf32>):
  %r = tape.tanh %a : tensor<4096xf32>
  %n = tape.convert %r to bf16 : tensor<4096xf32>
  tape.yield %n : tensor<4096xbf16> }
plan.kernel @gelu { ^bb0(%a: tensor<4096xbf16>):
  %r = tape.gelu %a {approximate = "none"} : tensor<4096xbf16>
  tape.yield %r : tensor<4096xbf16> }
plan.kernel @wide { ^bb0(%a: tensor<4096xf32>):
  %r = tape.tanh %a : tensor<4096xf32>
  tape.yield %r : tensor<4096xf32> }
)";

void check(KernelTester &kernels, const std::string &name, double largest, const std::function<double(double)> &exact) {
  std::vector<float> inputs;
  for (int i = 0; i < 2048; ++i)
    for (double sign : {-1.0, 1.0}) // both tiny and large
      inputs.push_back(sign * largest * std::pow(2.0, -i / 96.0));
  inputs[0] = -std::numeric_limits<float>::infinity();
  inputs[1] = std::numeric_limits<float>::infinity();
  inputs[2] = std::numeric_limits<float>::quiet_NaN();
  auto results = kernels.run(name, {Tensor::of(inputs)}, {Tensor::empty<uint16_t>(inputs.size())})[0].values<uint16_t>();
  for (size_t i = 0; i < inputs.size(); ++i) {
    double expected = exact(inputs[i]), actual = bfloat16ToFloat(results[i]);
    if (!std::isfinite(expected)) {
      ASSERT_TRUE(std::isnan(expected) ? std::isnan(actual) : actual == expected) << name << "(" << inputs[i] << ") " << actual;
      continue;
    }
    ASSERT_NEAR(actual, expected, std::fabs(expected) * (0x1p-8 + 0x1p-17)) << name << "(" << inputs[i] << ")";
  }
}

TEST(ApproximateMathTest, IsWithinHalfAUnitOf16Bits) {
  KernelTester kernels(kKernels);
  ASSERT_TRUE(kernels.loaded()) << kernels.messages();
  check(kernels, "exp", 80, [](double x) { return std::exp(x); });
  check(kernels, "tanh", 30, [](double x) { return std::tanh(x); });
}

// x Phi(x), by erf. Far below 0 only the error of erf is left: 1.5e-7 x / 2.
TEST(ApproximateMathTest, GeluByErf) {
  KernelTester kernels(kKernels);
  ASSERT_TRUE(kernels.loaded()) << kernels.messages();
  std::vector<uint16_t> inputs;
  for (int i = 0; i < 4096; ++i)
    inputs.push_back(floatToBfloat16((i % 2 ? -1.0f : 1.0f) * 12 * std::pow(2.0f, -i / 200.0f)));
  auto results = kernels.run("gelu", {Tensor::of(inputs)}, {Tensor::empty<uint16_t>(inputs.size())})[0].values<uint16_t>();
  for (size_t i = 0; i < inputs.size(); ++i) {
    double x = bfloat16ToFloat(inputs[i]), expected = 0.5 * x * std::erfc(-x / std::sqrt(2.0));
    ASSERT_NEAR(bfloat16ToFloat(results[i]), expected, std::fabs(expected) * (0x1p-8 + 0x1p-17) + 2.5e-7 * std::fabs(x)) << x;
  }
}

} // namespace
} // namespace tapeout::codegen
