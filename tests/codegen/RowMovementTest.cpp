// embedding, slice and concatenate.
#include "tests/codegen/KernelTester.h"

#include <fmt/format.h>

#include <cmath>

namespace tapeout::codegen {
namespace {

const int64_t kWidths[] = {1, 15, 17, 64, 150};
constexpr int64_t kRows = 10, kTokens = 37, kParts = 600;

std::string kernels() {
  std::string text;
  for (int64_t width : kWidths)
    text += substitute(R"(
plan.kernel @embedding_$ { ^bb0(%t: tensor<10x$xf32>, %i: tensor<37xi32>):
  %r = tape.embedding %t[%i] : tensor<10x$xf32>, tensor<37xi32>
  tape.yield %r : tensor<37x$xf32> }
plan.kernel @split_$ { ^bb0(%a: tensor<5x6x$xf32>):
  %r0 = tape.slice %a from [0, 0, 0] to [5, 2, $] : tensor<5x6x$xf32>
  %r1 = tape.slice %a from [0, 2, 0] to [5, 4, $] : tensor<5x6x$xf32>
  %r2 = tape.slice %a from [0, 4, 0] to [5, 6, $] : tensor<5x6x$xf32>
  tape.yield %r0, %r1, %r2 : tensor<5x2x$xf32>, tensor<5x2x$xf32>, tensor<5x2x$xf32> }
plan.kernel @concatenate_$ { ^bb0(%a: tensor<5x2x$xf32>, %b: tensor<5x2x$xf32>):
  %r = tape.concatenate %b, %a, %b dim 1 : tensor<5x2x$xf32>, tensor<5x2x$xf32>, tensor<5x2x$xf32>
  tape.yield %r : tensor<5x6x$xf32> }
plan.kernel @unequal_$ { ^bb0(%a: tensor<5x2x$xf32>, %b: tensor<5x1x$xf32>):
  %r = tape.concatenate %b, %a, %b dim 1 : tensor<5x1x$xf32>, tensor<5x2x$xf32>, tensor<5x1x$xf32>
  tape.yield %r : tensor<5x4x$xf32> }
)",
                       std::to_string(width));
  // More arguments than a launch may have.
  std::string arguments, operands, types;
  for (int64_t i = 0; i < kParts; ++i) {
    arguments += fmt::format("{}%a{}: tensor<3xf32>", i > 0 ? ", " : "", i);
    operands += fmt::format("{}%a{}", i > 0 ? ", " : "", i);
    types += i > 0 ? ", tensor<3xf32>" : "tensor<3xf32>";
  }
  text += fmt::format("plan.kernel @many {{ ^bb0({}):\n  %r = tape.concatenate {} dim 0 : {}\n"
                      "  tape.yield %r : tensor<{}xf32> }}\n",
                      arguments, operands, types, 3 * kParts);
  std::string sum = "%a0";
  std::string sums;
  for (int64_t i = 1; i < kParts; ++i) {
    sums += fmt::format("  %s{} = tape.add {}, %a{} : tensor<3xf32>, tensor<3xf32>\n", i, sum, i);
    sum = fmt::format("%s{}", i);
  }
  text += fmt::format("plan.kernel @sum {{ ^bb0({}):\n{}  tape.yield {} : tensor<3xf32> }}\n", arguments, sums, sum);
  return text + R"(
plan.kernel @long { ^bb0(%a: tensor<2x5000xi64>):
  %r0 = tape.slice %a from [0, 0] to [1, 5000] : tensor<2x5000xi64>
  %r1 = tape.slice %a from [1, 0] to [2, 5000] : tensor<2x5000xi64>
  tape.yield %r1, %r0 : tensor<1x5000xi64>, tensor<1x5000xi64> }
)";
}

class RowMovementTest : public testing::Test {
protected:
  static void SetUpTestSuite() { kernels_ = new KernelTester(kernels(), 2); }
  static void TearDownTestSuite() { delete kernels_; }
  void SetUp() override { ASSERT_TRUE(kernels_->loaded()) << kernels_->messages(); }
  static std::vector<int32_t> ids() { // some outside the table, many repeated
    std::vector<int32_t> result(kTokens);
    for (int64_t i = 0; i < kTokens; ++i)
      result[i] = i * 7 % kRows;
    result[5] = -1;
    result[36] = kRows;
    result[20] = INT32_MIN;
    return result;
  }
  static KernelTester *kernels_;
};
KernelTester *RowMovementTest::kernels_;

TEST_F(RowMovementTest, EmbeddingReadsRowsAndMarksIdsOutsideTheTable) {
  for (int64_t width : kWidths) {
    auto table = randomFloats(kRows * width, -1, 1);
    auto result = kernels_
                      ->run("embedding_" + std::to_string(width), {Tensor::of(table), Tensor::of(ids())},
                            {Tensor::empty<float>(kTokens * width)})[0]
                      .values<float>();
    for (int64_t i = 0; i < kTokens * width; ++i) {
      int32_t id = ids()[i / width];
      if (id < 0 || id >= kRows) {
        ASSERT_TRUE(std::isnan(result[i])) << width << " " << i;
      } else {
        ASSERT_EQ(result[i], table[id * width + i % width]) << width << " " << i;
      }
    }
  }
}

TEST_F(RowMovementTest, MoreArgumentsThanALaunchMayHave) {
  std::vector<Tensor> parts;
  std::vector<float> whole, sum(3, 0);
  for (int64_t i = 0; i < kParts; ++i) {
    std::vector<float> part = {float(i), float(i % 7), -1}; // sums of integers are exact
    for (int64_t j = 0; j < 3; ++j)
      sum[j] += part[j];
    whole.insert(whole.end(), part.begin(), part.end());
    parts.push_back(Tensor::of(part));
  }
  EXPECT_EQ(kernels_->run("many", parts, {Tensor::empty<float>(3 * kParts)})[0].values<float>(), whole);
  EXPECT_EQ(kernels_->run("sum", parts, {Tensor::empty<float>(3)})[0].values<float>(), sum);
}

TEST_F(RowMovementTest, PartsAreCutAndJoined) {
  for (int64_t width : kWidths) {
    auto whole = randomFloats(30 * width, -1, 1);
    std::vector<Tensor> empty(3, Tensor::empty<float>(10 * width));
    auto parts = kernels_->run("split_" + std::to_string(width), {Tensor::of(whole)}, empty);
    for (int64_t i = 0; i < 30 * width; ++i) {
      int64_t row = i / (6 * width), part = i / (2 * width) % 3, rest = i % (2 * width);
      ASSERT_EQ(parts[part].values<float>()[row * 2 * width + rest], whole[i]) << width << " " << i;
    }
    auto joined =
        kernels_
            ->run("concatenate_" + std::to_string(width), {parts[0], parts[1]}, {Tensor::empty<float>(30 * width)})[0]
            .values<float>();
    for (int64_t i = 0; i < 30 * width; ++i) {
      int64_t row = i / (6 * width), part = i / (2 * width) % 3, rest = i % (2 * width), from = part == 1 ? 0 : 1;
      ASSERT_EQ(joined[i], parts[from].values<float>()[row * 2 * width + rest]) << width << " " << i;
    }
  }
}

TEST_F(RowMovementTest, PartsOfDifferentLengthsAreJoined) {
  for (int64_t width : kWidths) {
    auto a = randomFloats(10 * width, -1, 1), b = randomFloats(5 * width, 2, 3);
    auto joined = kernels_
                      ->run("unequal_" + std::to_string(width), {Tensor::of(a), Tensor::of(b)},
                            {Tensor::empty<float>(20 * width)})[0]
                      .values<float>();
    for (int64_t i = 0; i < 20 * width; ++i) {
      int64_t row = i / (4 * width), place = i / width % 4, rest = i % width;
      bool inside = place == 1 || place == 2;
      ASSERT_EQ(joined[i], inside ? a[(row * 2 + place - 1) * width + rest] : b[row * width + rest]) << width << " " << i;
    }
  }
}

TEST_F(RowMovementTest, LongRowsAreSharedAndResultsMayBeInAnyOrder) {
  std::vector<int64_t> whole(10000);
  std::iota(whole.begin(), whole.end(), 0);
  EXPECT_GT(kernels_->units("long"), 1u);
  auto parts = kernels_->run("long", {Tensor::of(whole)}, {Tensor::empty<int64_t>(5000), Tensor::empty<int64_t>(5000)});
  EXPECT_EQ(parts[0].values<int64_t>(), std::vector<int64_t>(whole.begin() + 5000, whole.end()));
  EXPECT_EQ(parts[1].values<int64_t>(), std::vector<int64_t>(whole.begin(), whole.begin() + 5000));
}

} // namespace
} // namespace tapeout::codegen
