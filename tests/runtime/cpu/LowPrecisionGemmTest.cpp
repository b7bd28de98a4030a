// Products in bf16 and f16 against the f32 product of the same values, rounded once: the same bits.
#include "runtime/base/BFloat16.h"
#include "runtime/device/cpu/LowPrecisionGemm.h"

#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <vector>

namespace tapeout::rt {
namespace {

constexpr float kMarker = -12345.0f;

float roundTo(ElementType type, float value) {
  if (type == ElementType::BF16)
    return bfloat16ToFloat(floatToBfloat16(value));
  return type == ElementType::F16 ? halfToFloat(floatToHalf(value)) : value;
}

/// Numbers as memory of a type.
std::vector<uint8_t> toMemory(ElementType type, const std::vector<float> &values) {
  std::vector<uint8_t> memory(values.size() * elementSize(type));
  for (size_t i = 0; i < values.size(); ++i) {
    uint16_t bits = type == ElementType::BF16 ? floatToBfloat16(values[i]) : floatToHalf(values[i]);
    if (type == ElementType::F32)
      std::memcpy(memory.data() + 4 * i, &values[i], 4);
    else
      std::memcpy(memory.data() + 2 * i, &bits, 2);
  }
  return memory;
}

struct Case {
  GemmProblem problem;
  std::vector<float> a, b, c;
};

/// Row-major or transposed operands, two products next to each other; c has unused columns.
Case makeCase(int64_t m, int64_t n, int64_t k, bool aTransposed, bool bTransposed, bool accumulate, std::mt19937 &random) {
  Case test;
  GemmProblem &p = test.problem;
  p.m = m, p.n = n, p.k = k;
  p.aRowStride = aTransposed ? 1 : k, p.aColumnStride = aTransposed ? m : 1;
  p.bRowStride = bTransposed ? 1 : n, p.bColumnStride = bTransposed ? k : 1;
  p.cRowStride = n + 3, p.cColumnStride = 1;
  p.batchDims = 1;
  p.batch[0] = {2, m * k, k * n, m * (n + 3)};
  p.accumulate = accumulate;
  std::uniform_real_distribution<float> uniform(-1, 1);
  test.a.resize(2 * m * k);
  test.b.resize(2 * k * n);
  for (std::vector<float> *operand : {&test.a, &test.b})
    for (float &value : *operand)
      value = uniform(random);
  test.c.assign(2 * m * (n + 3), kMarker);
  return test;
}

class LowPrecisionGemm : public testing::TestWithParam<std::pair<ElementType, ElementType>> {
protected:
  void check(Case test) {
    auto [operand, result] = GetParam();
    for (std::vector<float> *values : {&test.a, &test.b})
      for (float &value : *values)
        value = roundTo(operand, value);
    for (float &value : test.c)
      value = roundTo(result, value);
    std::vector<uint8_t> a = toMemory(operand, test.a), b = toMemory(operand, test.b);
    for (int threads : {1, 3})
      for (CpuIsa isa : isas()) {
        ThreadPool pool(threads);
        Result<GemmWorkspace> workspace = GemmWorkspace::create(threads);
        Result<GemmStaging> staging = GemmStaging::create(threads);
        ASSERT_TRUE(workspace.isOk() && staging.isOk());
        std::vector<float> expected = test.c;
        gemm(test.problem, test.a.data(), test.b.data(), expected.data(), isa, pool, *workspace);
        std::vector<uint8_t> c = toMemory(result, test.c);
        lowPrecisionGemm(test.problem, {operand, result}, a.data(), b.data(), c.data(), isa, pool, *workspace, *staging);
        EXPECT_EQ(c, toMemory(result, expected)) << test.problem.m << " x " << test.problem.n << " x " << test.problem.k;
      }
  }

  static std::vector<CpuIsa> isas() {
    Result<CpuIsa> detected = detectCpuIsa();
    if (detected.isOk() && *detected == CpuIsa::Avx512)
      return {CpuIsa::Avx2, CpuIsa::Avx512};
    return {CpuIsa::Avx2};
  }

  std::mt19937 random_{7};
};

TEST_P(LowPrecisionGemm, HasTheBitsOfTheF32Product) {
  for (int64_t m : {1, 5, 97})
    for (int64_t n : {1, 64, 200})
      for (int64_t k : {1, 33, 600}) // one block of k, and two
        for (int layout = 0; layout < 4; ++layout)
          check(makeCase(m, n, k, layout & 1, layout & 2, false, random_));
}

TEST_P(LowPrecisionGemm, AddsToTheOldResult) { check(makeCase(100, 70, 530, false, true, true, random_)); }

TEST_P(LowPrecisionGemm, TellsOfEachFinishedPieceOnce) {
  auto [operand, result] = GetParam();
  Case test = makeCase(200, 300, 40, false, false, false, random_);
  test.problem.batchDims = 0;
  std::vector<uint8_t> a = toMemory(operand, test.a), b = toMemory(operand, test.b), c = toMemory(result, test.c);
  ThreadPool pool(1);
  Result<GemmWorkspace> workspace = GemmWorkspace::create(1);
  Result<GemmStaging> staging = GemmStaging::create(1);
  ASSERT_TRUE(workspace.isOk() && staging.isOk());
  std::vector<int> finished(200 * 300);
  auto finish = [&](GemmPiece piece) {
    EXPECT_EQ(piece.column % 64, 0);
    for (int64_t i = piece.row; i < piece.row + piece.rows; ++i)
      for (int64_t j = piece.column; j < piece.column + piece.columns; ++j)
        ++finished[i * 300 + j];
  };
  lowPrecisionGemm(test.problem, {operand, result}, a.data(), b.data(), c.data(), CpuIsa::Avx2, pool, *workspace, *staging,
                   finish);
  EXPECT_EQ(finished, std::vector<int>(200 * 300, 1));
}

INSTANTIATE_TEST_SUITE_P(Types, LowPrecisionGemm,
                         testing::Values(std::pair(ElementType::BF16, ElementType::BF16),
                                         std::pair(ElementType::BF16, ElementType::F32),
                                         std::pair(ElementType::F16, ElementType::F16),
                                         std::pair(ElementType::F16, ElementType::F32)),
                         [](const auto &info) {
                           return std::string(name(info.param.first)) + "_to_" + std::string(name(info.param.second));
                         });

TEST(GemmTypes, AreOneTypeOrF32) {
  using enum ElementType;
  EXPECT_TRUE(isGemmTypes(F32, F32, F32));
  EXPECT_TRUE(isGemmTypes(BF16, BF16, F32));
  EXPECT_FALSE(isGemmTypes(BF16, F32, F32));
  EXPECT_FALSE(isGemmTypes(F32, F32, BF16));
  EXPECT_FALSE(isGemmTypes(F16, F16, BF16));
  EXPECT_FALSE(isGemmTypes(F64, F64, F64));
}

} // namespace
} // namespace tapeout::rt
