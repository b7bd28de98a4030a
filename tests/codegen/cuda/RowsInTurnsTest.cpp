// Long rows that a block takes in turn, the next one arriving in shared memory: the same bits as those of blocks with one row.
#include "runtime/base/BFloat16.h"
#include "tests/codegen/KernelTester.h"

namespace tapeout::codegen {
namespace {

constexpr int64_t kRows = 2101, kFew = 300; // the last of the blocks with two rows has one only; 300 rows are 300 blocks

std::string kernels(int64_t rows, int64_t length) {
  std::string text = R"(
plan.kernel @softmax_ROWS { ^bb0(%x: tensor<ROWSx$xbf16>):
  %w = tape.convert %x to f32 : tensor<ROWSx$xbf16>
  %m = tape.reduce "max" %w over [1] : tensor<ROWSx$xf32>
  %mb = tape.broadcast_in_dim %m to [ROWS, $] dims [0] : tensor<ROWSxf32>
  %d = tape.subtract %w, %mb : tensor<ROWSx$xf32>, tensor<ROWSx$xf32>
  %e = tape.exp %d : tensor<ROWSx$xf32>
  %s = tape.reduce "sum" %e over [1] : tensor<ROWSx$xf32>
  %y = tape.convert %e to bf16 : tensor<ROWSx$xf32>
  tape.yield %y, %s : tensor<ROWSx$xbf16>, tensor<ROWSxf32> }
plan.kernel @centred_ROWS { ^bb0(%x: tensor<ROWSx$xbf16>):
  %w = tape.convert %x to f32 : tensor<ROWSx$xbf16>
  %m = tape.reduce "sum" %w over [1] : tensor<ROWSx$xf32>
  %mb = tape.broadcast_in_dim %m to [ROWS, $] dims [0] : tensor<ROWSxf32>
  %d = tape.subtract %w, %mb : tensor<ROWSx$xf32>, tensor<ROWSx$xf32>
  %y = tape.convert %d to bf16 : tensor<ROWSx$xf32>
  tape.yield %y, %m : tensor<ROWSx$xbf16>, tensor<ROWSxf32> }
)";
  for (size_t at; (at = text.find("ROWS")) != std::string::npos;)
    text.replace(at, 4, std::to_string(rows));
  return substitute(text, std::to_string(length));
}

class RowsInTurns : public testing::TestWithParam<std::tuple<const char *, int64_t>> {};

TEST_P(RowsInTurns, HaveTheBitsOfRowsAlone) {
  auto [name, length] = GetParam();
  KernelTester tester(kernels(kRows, length) + kernels(kFew, length));
  ASSERT_TRUE(tester.loaded()) << tester.messages();
  auto run = [&](int64_t rows, const std::vector<uint16_t> &x, const std::vector<int> &inPlace) {
    return tester.run(name + ("_" + std::to_string(rows)), {Tensor::of(x)},
                      {Tensor::empty<uint16_t>(x.size()), Tensor::empty<float>(rows)}, inPlace);
  };
  std::vector<uint16_t> x;
  for (float value : randomFloats(kRows * length, -4, 4))
    x.push_back(floatToBfloat16(value));
  EXPECT_LT(tester.units(name + ("_" + std::to_string(kRows))), kRows) << "a block has several rows";
  std::vector<Tensor> together = run(kRows, x, {0, -1});
  std::vector<uint16_t> elements = together[0].values<uint16_t>();
  std::vector<float> sums = together[1].values<float>();
  for (int64_t first : {kRows / 2 - kFew / 2, kRows - kFew}) { // some rows that are the first of their blocks, and later ones
    std::vector<Tensor> alone = run(kFew, {x.begin() + first * length, x.begin() + (first + kFew) * length}, {});
    auto of = [&](const auto &all, int64_t each) {
      return Tensor::of(std::decay_t<decltype(all)>(all.begin() + first * each, all.begin() + (first + kFew) * each));
    };
    EXPECT_TRUE(alone[0].sameBits(of(elements, length))) << "rows from " << first;
    EXPECT_TRUE(alone[1].sameBits(of(sums, 1))) << "rows from " << first;
  }
}

// Vectors of 8 elements, of which the last threads have one less, and of one.
INSTANTIATE_TEST_SUITE_P(Lengths, RowsInTurns,
                         testing::Values(std::tuple("softmax", 16392), std::tuple("centred", 16392),
                                         std::tuple("centred", 16411)));

} // namespace
} // namespace tapeout::codegen
