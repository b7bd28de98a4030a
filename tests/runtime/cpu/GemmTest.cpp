#include "runtime/device/cpu/Gemm.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <memory>
#include <random>
#include <sstream>
#include <vector>

namespace tapeout::rt {
namespace {

/// A product with its buffers. Elements of c that the product does not own hold a marker.
struct Case {
  GemmProblem problem;
  std::vector<float> a, b, c;
};

constexpr float marker = -12345.0f;

/// Strides of nested axes in the given order, the last one innermost; axes may be padded.
template <typename Random>
void layOut(std::vector<std::pair<int64_t, int64_t *>> axes, Random &random, int64_t innermost, bool pad) {
  int64_t stride = innermost;
  for (auto axis = axes.rbegin(); axis != axes.rend(); ++axis) {
    *axis->second = stride;
    stride *= axis->first + (pad ? static_cast<int64_t>(random() % 4) : 0);
  }
}

int64_t sizeOf(const GemmProblem &problem, char operand) {
  int64_t last = 0;
  auto reach = [&last](int64_t extent, int64_t stride) { last += (extent - 1) * stride; };
  if (operand == 'a')
    reach(problem.m, problem.aRowStride), reach(problem.k, problem.aColumnStride);
  else if (operand == 'b')
    reach(problem.k, problem.bRowStride), reach(problem.n, problem.bColumnStride);
  else
    reach(problem.m, problem.cRowStride), reach(problem.n, problem.cColumnStride);
  for (int d = 0; d < problem.batchDims; ++d) {
    const GemmBatchDim &dim = problem.batch[d];
    reach(dim.extent, operand == 'a' ? dim.aStride : operand == 'b' ? dim.bStride : dim.cStride);
  }
  return last + 1;
}

template <typename Visit> void forEachBatch(const GemmProblem &problem, Visit visit) {
  std::array<int64_t, maxGemmBatchDims> index = {};
  while (true) {
    int64_t a = 0, b = 0, c = 0;
    for (int d = 0; d < problem.batchDims; ++d) {
      a += index[d] * problem.batch[d].aStride;
      b += index[d] * problem.batch[d].bStride;
      c += index[d] * problem.batch[d].cStride;
    }
    visit(a, b, c);
    int d = problem.batchDims - 1;
    while (d >= 0 && ++index[d] == problem.batch[d].extent)
      index[d--] = 0;
    if (d < 0)
      return;
  }
}

void fillBuffers(Case &test, std::mt19937 &random) {
  std::uniform_real_distribution<float> uniform(-1, 1);
  const GemmProblem &problem = test.problem;
  test.a.resize(sizeOf(problem, 'a'));
  test.b.resize(sizeOf(problem, 'b'));
  test.c.assign(sizeOf(problem, 'c'), marker);
  for (float &value : test.a)
    value = uniform(random);
  for (float &value : test.b)
    value = uniform(random);
  forEachBatch(problem, [&](int64_t, int64_t, int64_t c) {
    for (int64_t i = 0; i < problem.m; ++i)
      for (int64_t j = 0; j < problem.n; ++j)
        test.c[c + i * problem.cRowStride + j * problem.cColumnStride] = uniform(random);
  });
}

/// Batch, row and column axes in any nesting, sometimes padded, sometimes with no contiguous axis.
Case randomCase(std::mt19937 &random, int64_t m, int64_t n, int64_t k) {
  Case test;
  GemmProblem &problem = test.problem;
  problem.m = m, problem.n = n, problem.k = k;
  problem.accumulate = random() % 2;
  problem.batchDims = m * n * k > 200000 ? random() % 2 : random() % (maxGemmBatchDims + 1);
  for (int d = 0; d < problem.batchDims; ++d)
    problem.batch[d].extent = 1 + random() % 3;

  auto place = [&](int64_t rows, int64_t *rowStride, int64_t columns, int64_t *columnStride,
                   int64_t GemmBatchDim::*batchStride) {
    std::vector<std::pair<int64_t, int64_t *>> axes = {{rows, rowStride}, {columns, columnStride}};
    for (int d = 0; d < problem.batchDims; ++d)
      axes.emplace_back(problem.batch[d].extent, &(problem.batch[d].*batchStride));
    std::shuffle(axes.begin(), axes.end(), random);
    layOut(axes, random, random() % 4 == 0 ? 2 : 1, random() % 2);
  };
  place(m, &problem.aRowStride, k, &problem.aColumnStride, &GemmBatchDim::aStride);
  place(k, &problem.bRowStride, n, &problem.bColumnStride, &GemmBatchDim::bStride);
  place(m, &problem.cRowStride, n, &problem.cColumnStride, &GemmBatchDim::cStride);
  fillBuffers(test, random);
  return test;
}

Case randomCase(std::mt19937 &random) {
  auto extent = [&]() -> int64_t {
    switch (random() % 4) {
    case 0:
      return 1 + random() % 8;
    case 1:
      return 1 + random() % 40;
    case 2:
      return 16 * (1 + random() % 6);
    default:
      return 1 + random() % 130;
    }
  };
  int64_t m = extent(), n = extent(), k = random() % 8 == 0 ? 200 + random() % 400 : extent();
  return randomCase(random, m, n, k);
}

/// Row-major operands, a and b column-major where asked.
Case plainCase(std::mt19937 &random, int64_t m, int64_t n, int64_t k, bool aTransposed = false,
               bool bTransposed = false) {
  Case test;
  GemmProblem &problem = test.problem;
  problem.m = m, problem.n = n, problem.k = k;
  problem.aRowStride = aTransposed ? 1 : k, problem.aColumnStride = aTransposed ? m : 1;
  problem.bRowStride = bTransposed ? 1 : n, problem.bColumnStride = bTransposed ? k : 1;
  problem.cRowStride = n, problem.cColumnStride = 1;
  fillBuffers(test, random);
  return test;
}

std::vector<float> run(const Case &test, CpuIsa isa, ThreadPool &pool) {
  Result<GemmWorkspace> workspace = GemmWorkspace::create(pool.threads());
  EXPECT_TRUE(workspace.isOk());
  EXPECT_TRUE(verifyGemm(test.problem).isOk()) << verifyGemm(test.problem).message();
  std::vector<float> c = test.c;
  gemm(test.problem, test.a.data(), test.b.data(), c.data(), isa, pool, *workspace);
  return c;
}

bool sameBits(const std::vector<float> &x, const std::vector<float> &y) {
  return std::equal(x.begin(), x.end(), y.begin(), y.end(),
                    [](float u, float v) { return std::bit_cast<uint32_t>(u) == std::bit_cast<uint32_t>(v); });
}

std::string describe(const GemmProblem &problem) {
  std::ostringstream text;
  text << problem.m << "x" << problem.n << "x" << problem.k << ", strides";
  for (int64_t stride : {problem.aRowStride, problem.aColumnStride, problem.bRowStride, problem.bColumnStride,
                         problem.cRowStride, problem.cColumnStride})
    text << " " << stride;
  text << ", " << problem.batchDims << " batch dimensions" << (problem.accumulate ? ", accumulate" : "");
  return text.str();
}

/// Against a triple loop in double precision; the bound is that of a sum of k rounded products.
void expectCorrect(const Case &test, const std::vector<float> &result) {
  const GemmProblem &problem = test.problem;
  std::vector<char> owned(result.size(), 0);
  int64_t wrong = 0;
  forEachBatch(problem, [&](int64_t a, int64_t b, int64_t c) {
    for (int64_t i = 0; i < problem.m; ++i)
      for (int64_t j = 0; j < problem.n; ++j) {
        int64_t at = c + i * problem.cRowStride + j * problem.cColumnStride;
        double sum = problem.accumulate ? test.c[at] : 0, magnitude = std::abs(sum);
        for (int64_t p = 0; p < problem.k; ++p) {
          double product = static_cast<double>(test.a[a + i * problem.aRowStride + p * problem.aColumnStride]) *
                           test.b[b + p * problem.bRowStride + j * problem.bColumnStride];
          sum += product;
          magnitude += std::abs(product);
        }
        owned[at] = 1;
        wrong += !(std::abs(result[at] - sum) <= (problem.k + 2) * 6e-8 * magnitude);
      }
  });
  EXPECT_EQ(wrong, 0) << "wrong elements in " << describe(problem);
  for (size_t i = 0; i < result.size(); ++i)
    if (!owned[i] && result[i] != marker)
      FAIL() << "element " << i << " outside c was written in " << describe(problem);
}

class Gemm : public ::testing::Test {
protected:
  void SetUp() override {
    Result<CpuIsa> detected = detectCpuIsa();
    ASSERT_TRUE(detected.isOk()) << detected.status().message();
    isas_ = {CpuIsa::Avx2};
    if (*detected == CpuIsa::Avx512)
      isas_.push_back(CpuIsa::Avx512);
  }

  /// Every instruction set and number of threads gives the bits of one thread with AVX2.
  void expectSameBitsEverywhere(const Case &test) {
    std::vector<float> expected = run(test, CpuIsa::Avx2, *pools_[0]);
    for (CpuIsa isa : isas_)
      for (auto &pool : pools_)
        EXPECT_TRUE(sameBits(run(test, isa, *pool), expected))
            << (isa == CpuIsa::Avx2 ? "AVX2" : "AVX-512") << ", " << pool->threads() << " threads, "
            << describe(test.problem);
  }

  std::vector<CpuIsa> isas_;
  std::unique_ptr<ThreadPool> pools_[3] = {std::make_unique<ThreadPool>(1), std::make_unique<ThreadPool>(2),
                                           std::make_unique<ThreadPool>(4)};
  std::mt19937 random_{20240607};
};

TEST_F(Gemm, SameBitsForAnyThreadsAndInstructionSet) {
  for (int i = 0; i < 150; ++i)
    expectSameBitsEverywhere(randomCase(random_));
}

TEST_F(Gemm, SameBitsForTheShapesOfTraining) {
  expectSameBitsEverywhere(plainCase(random_, 768, 384, 128, false, true));
  expectSameBitsEverywhere(plainCase(random_, 384, 128, 768, true, false));
  expectSameBitsEverywhere(plainCase(random_, 64, 512, 784));
  expectSameBitsEverywhere(plainCase(random_, 64, 10, 512, false, true));
  expectSameBitsEverywhere(plainCase(random_, 10, 512, 64, true, false));
  expectSameBitsEverywhere(plainCase(random_, 1000, 1500, 100, true, true));
}

/// The order of operations that Gemm.h promises, spelled out: 700 = 352 + 348 (two blocks, the first a multiple of 8).
TEST_F(Gemm, EveryElementIsAChainPerBlock) {
  for (bool accumulate : {false, true}) {
    Case test = plainCase(random_, 17, 19, 700, true, true);
    test.problem.accumulate = accumulate;
    std::vector<float> expected = test.c;
    for (int64_t i = 0; i < 17; ++i)
      for (int64_t j = 0; j < 19; ++j) {
        float chains[2] = {0, 0};
        for (int64_t p = 0; p < 700; ++p)
          chains[p >= 352] = std::fma(test.a[p * 17 + i], test.b[j * 700 + p], chains[p >= 352]);
        float &c = expected[i * 19 + j];
        c = (accumulate ? c + chains[0] : chains[0]) + chains[1];
      }
    for (CpuIsa isa : isas_)
      EXPECT_TRUE(sameBits(run(test, isa, *pools_[0]), expected));
  }
}

TEST_F(Gemm, AgreesWithDoublePrecision) {
  for (int i = 0; i < 300; ++i) {
    Case test = randomCase(random_);
    expectCorrect(test, run(test, isas_[i % isas_.size()], *pools_[i % 3]));
  }
}

TEST_F(Gemm, EveryEdgeOfTheMicroKernels) {
  for (CpuIsa isa : isas_)
    for (int64_t m = 1; m <= 30; ++m)
      for (int64_t n : {1, 7, 8, 9, 15, 16, 17, 31, 32, 33, 47, 48, 49, 63, 64, 65, 100}) {
        Case test = plainCase(random_, m, n, 5, m % 2, n % 3);
        expectCorrect(test, run(test, isa, *pools_[0]));
      }
}

TEST_F(Gemm, TilesAndBlocksLargerThanTheirBounds) {
  for (CpuIsa isa : isas_) {
    Case wide = plainCase(random_, 20, 1700, 300);
    expectCorrect(wide, run(wide, isa, *pools_[1]));
    Case tall = plainCase(random_, 1600, 20, 300, true, true);
    expectCorrect(tall, run(tall, isa, *pools_[1]));
  }
}

TEST_F(Gemm, HeadsOfAttentionInTokenMajorLayout) {
  Case test;
  GemmProblem &problem = test.problem;
  int64_t batch = 3, tokens = 33, heads = 4, width = 32;
  problem.m = problem.n = tokens, problem.k = width;
  problem.aRowStride = problem.bColumnStride = heads * width;
  problem.aColumnStride = problem.bRowStride = 1;
  problem.cRowStride = tokens, problem.cColumnStride = 1;
  problem.batchDims = 2;
  problem.batch[0] = {batch, tokens * heads * width, tokens * heads * width, heads * tokens * tokens};
  problem.batch[1] = {heads, width, width, tokens * tokens};
  fillBuffers(test, random_);
  for (CpuIsa isa : isas_)
    expectCorrect(test, run(test, isa, *pools_[1]));
}

/// Half of the work is left out, and nothing of the result changes but what is above the diagonal.
TEST_F(Gemm, TrianglesGiveTheBitsOfTheWholeProduct) {
  for (int i = 0; i < 120; ++i) {
    int64_t tokens = i % 6 == 0 ? 500 + random_() % 700 : 1 + random_() % 130, width = 1 + random_() % 40;
    auto triangle = static_cast<GemmTriangle>(1 + i % 3);
    bool ofResult = triangle == GemmTriangle::Result;
    Case test = ofResult ? randomCase(random_, tokens, tokens, width) : randomCase(random_, tokens, width, tokens);
    test.problem.accumulate &= !ofResult;
    forEachBatch(test.problem, [&](int64_t a, int64_t, int64_t) {
      for (int64_t row = 0; row < tokens && !ofResult; ++row)
        for (int64_t p = 0; p < tokens; ++p)
          if (triangle == GemmTriangle::A ? p > row : p < row)
            test.a[a + row * test.problem.aRowStride + p * test.problem.aColumnStride] = 0;
    });
    std::vector<float> expected = run(test, CpuIsa::Avx2, *pools_[0]);
    forEachBatch(test.problem, [&](int64_t, int64_t, int64_t c) {
      for (int64_t row = 0; row < tokens && ofResult; ++row)
        for (int64_t column = row + 1; column < tokens; ++column)
          expected[c + row * test.problem.cRowStride + column * test.problem.cColumnStride] = 0;
    });
    test.problem.triangle = triangle;
    for (CpuIsa isa : isas_)
      for (auto &pool : pools_)
        EXPECT_TRUE(sameBits(run(test, isa, *pool), expected)) << "triangle " << i % 3 + 1 << " of " << describe(test.problem);
  }
}

TEST_F(Gemm, NotANumberAndInfinityReachTheResult) {
  Case test = plainCase(random_, 3, 3, 3);
  test.a[0] = INFINITY;
  test.b[0] = NAN;
  std::vector<float> c = run(test, isas_.back(), *pools_[0]);
  EXPECT_TRUE(std::isnan(c[0]));
  EXPECT_TRUE(std::isinf(c[1]) || std::isnan(c[1]));
  EXPECT_TRUE(std::isfinite(c[4]));
}

TEST_F(Gemm, FinishesEachPieceOnce) {
  const int64_t m = 300, n = 500, k = 700;
  GemmProblem problem;
  problem.m = m, problem.n = n, problem.k = k;
  problem.aRowStride = k, problem.aColumnStride = 1, problem.bRowStride = n, problem.bColumnStride = 1;
  problem.cRowStride = n, problem.cColumnStride = 1;
  std::vector<float> a(m * k, 0.5f), b(k * n, 2.0f), c(m * n);
  for (int threads : {1, 3}) {
    ThreadPool pool(threads);
    Result<GemmWorkspace> workspace = GemmWorkspace::create(threads);
    ASSERT_TRUE(workspace.isOk());
    std::fill(c.begin(), c.end(), 0.0f);
    auto negate = [&](GemmPiece piece) {
      EXPECT_EQ(piece.column % 64, 0);
      for (int64_t i = piece.row; i < piece.row + piece.rows; ++i)
        for (int64_t j = piece.column; j < piece.column + piece.columns; ++j)
          c[i * n + j] = -c[i * n + j];
    };
    gemm(problem, a.data(), b.data(), c.data(), CpuIsa::Avx2, pool, *workspace, negate);
    EXPECT_TRUE(std::all_of(c.begin(), c.end(), [](float x) { return x == -700.0f; }));
  }
}

TEST(GemmVerify, RefusesProblemsThatCannotBeComputed) {
  GemmProblem good;
  good.m = 4, good.n = 5, good.k = 6;
  good.aRowStride = 6, good.aColumnStride = 1;
  good.bRowStride = 5, good.bColumnStride = 1;
  good.cRowStride = 5, good.cColumnStride = 1;
  good.batchDims = 1;
  good.batch[0] = {2, 24, 0, 20};
  EXPECT_TRUE(verifyGemm(good).isOk());

  auto expectRefused = [&](auto change, const char *reason) {
    GemmProblem problem = good;
    change(problem);
    Status status = verifyGemm(problem);
    EXPECT_EQ(status.code(), ExitCode::BadData);
    EXPECT_NE(status.message().find(reason), std::string::npos) << status.message();
  };
  expectRefused([](GemmProblem &p) { p.m = 0; }, "extent of 0");
  expectRefused([](GemmProblem &p) { p.n = 0; }, "extent of 0");
  expectRefused([](GemmProblem &p) { p.k = 0; }, "extent of 0");
  expectRefused([](GemmProblem &p) { p.k = -1; }, "extent of -1");
  expectRefused([](GemmProblem &p) { p.batch[0].extent = 0; }, "extent of 0");
  expectRefused([](GemmProblem &p) { p.batchDims = 5; }, "5 batch dimensions");
  expectRefused([](GemmProblem &p) { p.batchDims = -1; }, "-1 batch dimensions");
  expectRefused([](GemmProblem &p) { p.aRowStride = -6; }, "negative stride in operand a");
  expectRefused([](GemmProblem &p) { p.bRowStride = INT64_MAX / 4; }, "address space in operand b");
  expectRefused([](GemmProblem &p) { p.aRowStride = INT64_MAX / 2; }, "address space in operand a");
  expectRefused([](GemmProblem &p) { p.k = INT64_MAX, p.aColumnStride = p.bRowStride = 0; }, "address space");
  expectRefused([](GemmProblem &p) { p.cRowStride = 4; }, "more than once");
  expectRefused([](GemmProblem &p) { p.cColumnStride = 0; }, "more than once");
  expectRefused([](GemmProblem &p) { p.batch[0].cStride = 0; }, "more than once");
}

TEST(GemmWorkspace, HoldsWhatItPromises) {
  EXPECT_EQ(gemmWorkspaceBytes(3), 3 * gemmWorkspaceBytes(1) + (1 << 20));
  EXPECT_LE(gemmWorkspaceBytes(1), 1 << 20); // the bound that Gemm.h states
  Result<GemmWorkspace> workspace = GemmWorkspace::create(2);
  ASSERT_TRUE(workspace.isOk());
  EXPECT_EQ((workspace->ofThread(1) - workspace->ofThread(0)) * sizeof(float), gemmWorkspaceBytes(1));
}

} // namespace
} // namespace tapeout::rt
