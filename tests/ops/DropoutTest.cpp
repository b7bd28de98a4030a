// Dropout draws a mask that depends on its key only; its values are in samples/Random.cpp.
#include "ir/tape/Random.h"
#include "tests/ops/Support.h"

#include "gtest/gtest.h"

using namespace mlir;
using namespace tapeout::tape;

namespace tapeout::ops {

namespace {
constexpr int64_t kElements = 40000;

class DropoutTest : public testing::Test {
protected:
  // y = dropout(ones) and the gradient of sum(y), which is the same mask.
  std::vector<Tensor> draw(double rate, double seed, double step) {
    Builder b(context_.get());
    auto vector = RankedTensorType::get({kElements}, b.getF32Type());
    auto number = RankedTensorType::get({}, b.getI64Type());
    TestModule test = makeFunction(*context_, {vector, number, number}, [&](TapeBuilder &t, ValueRange x) {
      Value y = t.builder().create<DropoutOp>(t.loc(), x[0], x[1], x[2], APFloat(rate), 9);
      auto gradients = accumulateGradients(t, *t.builder().getInsertionBlock(), {{y, x[0]}});
      return std::vector<Value>{y, gradients[x[0].getAsOpaquePointer()]};
    });
    Tensor ones{b.getF32Type(), {kElements}, std::vector<double>(kElements, 1.0)};
    return interpret(test.function, {ones, {b.getI64Type(), {}, {seed}}, {b.getI64Type(), {}, {step}}}, Precision::F32);
  }

  std::unique_ptr<MLIRContext> context_ = makeContext();
};

TEST_F(DropoutTest, KeepsItsShareOfElements) {
  for (double rate : {0.1, 0.5, 0.9}) {
    int64_t kept = kElements - llvm::count(draw(rate, 1, 0)[0].values, 0.0);
    double deviation = std::sqrt(kElements * rate * (1 - rate));
    EXPECT_NEAR(kept, kElements * (1 - rate), 4 * deviation);
  }
}

TEST_F(DropoutTest, GradientDrawsTheSameMask) {
  std::vector<Tensor> results = draw(0.3, 7, 2);
  ASSERT_EQ(results.size(), 2u);
  EXPECT_EQ(results[0].values, results[1].values);
}

TEST_F(DropoutTest, SeedAndStepChangeTheMask) {
  std::vector<double> mask = draw(0.3, 7, 2)[0].values;
  EXPECT_EQ(draw(0.3, 7, 2)[0].values, mask);
  EXPECT_NE(draw(0.3, 8, 2)[0].values, mask);
  EXPECT_NE(draw(0.3, 7, 3)[0].values, mask);
  EXPECT_NE(draw(0.3, 7 + 0x1p40, 2)[0].values, mask);
}
} // namespace

} // namespace tapeout::ops
