// Kernels of rows that reduce bands of them besides: the same bits as a kernel that only reduces columns, and right sums.
#include "runtime/base/BFloat16.h"
#include "tests/codegen/KernelTester.h"

namespace tapeout::codegen {
namespace {

constexpr int64_t kBands = 128, kRows = 8;
const int64_t kColumns[] = {64, 65, 200, 1032}; // a quarter of a warp, a warp, two warps

// As the gradient of a normalisation: results of rows, of elements (may lie over %x) and of two bands.
std::string kernels() {
  std::string text;
  for (int64_t columns : kColumns)
    text += substitute(R"(
plan.kernel @fused_$ { ^bb0(%x: tensor<1024x$xf32>, %y: tensor<1024x$xbf16>):
  %w = tape.convert %y to f32 : tensor<1024x$xbf16>
  %p = tape.multiply %x, %w : tensor<1024x$xf32>, tensor<1024x$xf32>
  %s = tape.reduce "sum" %p over [1] : tensor<1024x$xf32>
  %sb = tape.broadcast_in_dim %s to [1024, $] dims [0] : tensor<1024xf32>
  %z = tape.subtract %x, %sb : tensor<1024x$xf32>, tensor<1024x$xf32>
  %c = tape.reshape %p to [128, 8, $] : tensor<1024x$xf32>
  %a = tape.reduce "sum" %c over [1] : tensor<128x8x$xf32>
  %d = tape.reshape %z to [128, 8, $] : tensor<1024x$xf32>
  %b = tape.reduce "sum" %d over [1] : tensor<128x8x$xf32>
  tape.yield %a, %z, %b, %s : tensor<128x$xf32>, tensor<1024x$xf32>, tensor<128x$xf32>, tensor<1024xf32> }
plan.kernel @rows_$ { ^bb0(%x: tensor<1024x$xf32>, %y: tensor<1024x$xbf16>):
  %w = tape.convert %y to f32 : tensor<1024x$xbf16>
  %p = tape.multiply %x, %w : tensor<1024x$xf32>, tensor<1024x$xf32>
  %s = tape.reduce "sum" %p over [1] : tensor<1024x$xf32>
  %sb = tape.broadcast_in_dim %s to [1024, $] dims [0] : tensor<1024xf32>
  %z = tape.subtract %x, %sb : tensor<1024x$xf32>, tensor<1024x$xf32>
  tape.yield %z, %s : tensor<1024x$xf32>, tensor<1024xf32> }
plan.kernel @products_$ { ^bb0(%x: tensor<1024x$xf32>, %y: tensor<1024x$xbf16>):
  %w = tape.convert %y to f32 : tensor<1024x$xbf16>
  %p = tape.multiply %x, %w : tensor<1024x$xf32>, tensor<1024x$xf32>
  %c = tape.reshape %p to [128, 8, $] : tensor<1024x$xf32>
  %a = tape.reduce "sum" %c over [1] : tensor<128x8x$xf32>
  tape.yield %a : tensor<128x$xf32> }
plan.kernel @sums_$ { ^bb0(%z: tensor<128x8x$xf32>):
  %b = tape.reduce "sum" %z over [1] : tensor<128x8x$xf32>
  tape.yield %b : tensor<128x$xf32> }
plan.kernel @only_bands_$ { ^bb0(%x: tensor<1024x$xf32>, %y: tensor<1024x$xbf16>):
  %w = tape.convert %y to f32 : tensor<1024x$xbf16>
  %p = tape.multiply %x, %w : tensor<1024x$xf32>, tensor<1024x$xf32>
  %s = tape.reduce "sum" %p over [1] : tensor<1024x$xf32>
  %sb = tape.broadcast_in_dim %s to [1024, $] dims [0] : tensor<1024xf32>
  %z = tape.subtract %x, %sb : tensor<1024x$xf32>, tensor<1024x$xf32>
  %d = tape.reshape %z to [128, 8, $] : tensor<1024x$xf32>
  %b = tape.reduce "sum" %d over [1] : tensor<128x8x$xf32>
  tape.yield %b : tensor<128x$xf32> }
plan.kernel @elements_$ { ^bb0(%x: tensor<1024x$xbf16>):
  %e = tape.exp %x : tensor<1024x$xbf16>
  %w = tape.convert %e to f32 : tensor<1024x$xbf16>
  %c = tape.reshape %w to [128, 8, $] : tensor<1024x$xf32>
  %b = tape.reduce "max" %c over [1] : tensor<128x8x$xf32>
  tape.yield %e, %b : tensor<1024x$xbf16>, tensor<128x$xf32> }
)",
                       std::to_string(columns));
  return text;
}

const KernelTester &tester() {
  static KernelTester compiled(kernels());
  return compiled;
}

std::vector<uint16_t> randomHalves(int64_t count, unsigned seed) {
  std::vector<uint16_t> values;
  for (float value : randomFloats(count, -1, 1, seed))
    values.push_back(floatToBfloat16(value));
  return values;
}

class Bands : public testing::TestWithParam<int64_t> {
protected:
  int64_t columns = GetParam(), elements = kBands * kRows * columns;
  std::string of(const char *kernel) const { return kernel + ("_" + std::to_string(columns)); }
  std::vector<Tensor> run(const char *kernel, const std::vector<Tensor> &operands, const std::vector<Tensor> &results,
                          const std::vector<int> &inPlace = {}) {
    return const_cast<KernelTester &>(tester()).run(of(kernel), operands, results, inPlace);
  }
  Tensor floats(int64_t count) const { return Tensor::empty<float>(count); }
};

TEST_P(Bands, AreThoseOfColumnKernels) {
  ASSERT_TRUE(tester().loaded()) << tester().messages();
  Tensor x = Tensor::of(randomFloats(elements, -1, 1)), y = Tensor::of(randomHalves(elements, 2));
  std::vector<Tensor> rows = run("rows", {x, y}, {floats(elements), floats(kBands * kRows)});
  std::vector<Tensor> products = run("products", {x, y}, {floats(kBands * columns)});
  std::vector<Tensor> sums = run("sums", {rows[0]}, {floats(kBands * columns)});
  for (int overwritten : {-1, 0}) {
    std::vector<Tensor> fused = run(
        "fused", {x, y}, {floats(kBands * columns), floats(elements), floats(kBands * columns), floats(kBands * kRows)},
        {-1, overwritten, -1, -1});
    EXPECT_TRUE(fused[0].sameBits(products[0]));
    EXPECT_TRUE(fused[1].sameBits(rows[0]));
    EXPECT_TRUE(fused[2].sameBits(sums[0]));
    EXPECT_TRUE(fused[3].sameBits(rows[1]));
  }

  EXPECT_TRUE(run("only_bands", {x, y}, {floats(kBands * columns)})[0].sameBits(sums[0])) << "of rows that nobody wants";

  std::vector<double> expected(kBands * columns);
  std::vector<float> z = rows[0].values<float>();
  for (int64_t i = 0; i < elements; ++i)
    expected[i / (kRows * columns) * columns + i % columns] += z[i];
  expectNear(sums[0].values<float>(), expected, 1e-5, 1e-4, "sum");
}

TEST_P(Bands, OfElementsWithoutRowSums) {
  ASSERT_TRUE(tester().loaded()) << tester().messages();
  Tensor x = Tensor::of(randomHalves(elements, 3));
  std::vector<Tensor> results =
      run("elements", {x}, {Tensor::empty<uint16_t>(elements), floats(kBands * columns)}, {0, -1});
  std::vector<uint16_t> powers = results[0].values<uint16_t>();
  std::vector<double> expected(kBands * columns);
  for (int64_t i = 0; i < elements; ++i) {
    double &largest = expected[i / (kRows * columns) * columns + i % columns];
    largest = std::max<double>(largest, bfloat16ToFloat(powers[i]));
  }
  expectNear(results[1].values<float>(), expected, 0, 0, "largest");
}

INSTANTIATE_TEST_SUITE_P(Columns, Bands, testing::ValuesIn(kColumns));

TEST(BandErrors, RowsOfAnotherLength) {
  KernelTester wrong(R"(
plan.kernel @k { ^bb0(%x: tensor<1024x128xf32>):
  %s = tape.reduce "sum" %x over [1] : tensor<1024x128xf32>
  %c = tape.reshape %x to [256, 8, 64] : tensor<1024x128xf32>
  %b = tape.reduce "sum" %c over [1] : tensor<256x8x64xf32>
  tape.yield %s, %b : tensor<1024xf32>, tensor<256x64xf32> })");
  EXPECT_NE(wrong.messages().find("must reduce bands of its own rows"), std::string::npos) << wrong.messages();
}

TEST(BandErrors, ColumnsThatAreNoBands) {
  KernelTester wrong(R"(
plan.kernel @k { ^bb0(%x: tensor<16x64xf32>):
  %s = tape.reduce "sum" %x over [1] : tensor<16x64xf32>
  %b = tape.reduce "sum" %x over [0] : tensor<16x64xf32>
  tape.yield %s, %b : tensor<16xf32>, tensor<64xf32> })");
  EXPECT_NE(wrong.messages().find("the same bands of rows"), std::string::npos) << wrong.messages();
}

} // namespace
} // namespace tapeout::codegen
