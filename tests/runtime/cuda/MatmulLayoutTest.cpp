// Strides of a product -> column-major matrices for cuBLASLt: every element of the plan's product is where the layout says.
#include "runtime/device/cuda/MatmulLayout.h"

#include <gtest/gtest.h>

#include <random>

namespace tapeout::rt {
namespace {

GemmProblem rowMajor(int64_t m, int64_t n, int64_t k) {
  return {.m = m, .n = n, .k = k, .aRowStride = k, .aColumnStride = 1, .bRowStride = n, .bColumnStride = 1,
          .cRowStride = n, .cColumnStride = 1};
}

MatrixLayout withoutBatch(MatrixLayout layout) {
  layout.batchStride = layout.outerStride = 0;
  return layout;
}

/// Where an element of op(matrix) lies, as cuBLASLt reads the layout.
int64_t place(const MatrixLayout &layout, int64_t row, int64_t column, int64_t batch, int64_t outer) {
  int64_t stored = layout.transposed ? row * layout.leadingDimension + column : column * layout.leadingDimension + row;
  return stored + batch * layout.batchStride + outer * layout.outerStride;
}

/// Checks every element of every operand. Batch index (outermost first) -> (batch, outer) is any bijection: the sets agree.
void expectSamePlaces(const GemmProblem &p) {
  Result<MatmulLayout> layout = chooseMatmulLayout(p);
  ASSERT_TRUE(layout.isOk()) << layout.status().message();
  std::vector<std::array<int64_t, 3>> expected = {{0, 0, 0}}, actual;
  for (int d = 0; d < p.batchDims; ++d) {
    std::vector<std::array<int64_t, 3>> next;
    for (auto base : expected)
      for (int64_t i = 0; i < p.batch[d].extent; ++i)
        next.push_back({base[0] + i * p.batch[d].aStride, base[1] + i * p.batch[d].bStride, base[2] + i * p.batch[d].cStride});
    expected = next;
  }
  const MatrixLayout &a = layout->swapped ? layout->right : layout->left, &b = layout->swapped ? layout->left : layout->right;
  for (int64_t outer = 0; outer < layout->outer; ++outer)
    for (int64_t batch = 0; batch < layout->batch; ++batch)
      actual.push_back({place(a, 0, 0, batch, outer), place(b, 0, 0, batch, outer), place(layout->result, 0, 0, batch, outer)});
  std::sort(expected.begin(), expected.end());
  std::sort(actual.begin(), actual.end());
  EXPECT_EQ(actual, expected);
  auto at = [&](const MatrixLayout &matrix, int64_t row, int64_t column) {
    return layout->swapped ? place(matrix, column, row, 0, 0) : place(matrix, row, column, 0, 0);
  };
  for (int64_t i = 0; i < p.m; ++i)
    for (int64_t q = 0; q < p.k; ++q)
      EXPECT_EQ(at(a, i, q), i * p.aRowStride + q * p.aColumnStride);
  for (int64_t q = 0; q < p.k; ++q)
    for (int64_t j = 0; j < p.n; ++j)
      EXPECT_EQ(at(b, q, j), q * p.bRowStride + j * p.bColumnStride);
  for (int64_t i = 0; i < p.m; ++i)
    for (int64_t j = 0; j < p.n; ++j)
      EXPECT_EQ(at(layout->result, i, j), i * p.cRowStride + j * p.cColumnStride);
  EXPECT_FALSE(layout->result.transposed);
  // What the library itself asks for.
  for (const MatrixLayout &matrix : {layout->left, layout->right, layout->result})
    EXPECT_GE(matrix.leadingDimension, matrix.rows);
}

TEST(MatmulLayout, RowMajorIsTheTransposedProduct) {
  MatmulLayout layout = *chooseMatmulLayout(rowMajor(5, 3, 4));
  EXPECT_TRUE(layout.swapped);
  EXPECT_EQ(withoutBatch(layout.left), (MatrixLayout{3, 4, 3, false}));  // b^T
  EXPECT_EQ(withoutBatch(layout.right), (MatrixLayout{4, 5, 4, false})); // a^T
  EXPECT_EQ(withoutBatch(layout.result), (MatrixLayout{3, 5, 3, false}));
  EXPECT_EQ(layout.batch, 1);
}

TEST(MatmulLayout, TransposedOperands) {
  GemmProblem p = rowMajor(5, 3, 4);
  std::tie(p.aRowStride, p.aColumnStride) = std::pair(1, 5);
  EXPECT_EQ(withoutBatch(chooseMatmulLayout(p)->right), (MatrixLayout{5, 4, 5, true}));
  std::tie(p.bRowStride, p.bColumnStride) = std::pair(1, 4);
  EXPECT_EQ(withoutBatch(chooseMatmulLayout(p)->left), (MatrixLayout{4, 3, 4, true}));
  expectSamePlaces(p);
}

TEST(MatmulLayout, ColumnMajorResultIsNotSwapped) {
  GemmProblem p = rowMajor(5, 3, 4);
  std::tie(p.cRowStride, p.cColumnStride) = std::pair(1, 7);
  EXPECT_FALSE(chooseMatmulLayout(p)->swapped);
  expectSamePlaces(p);
}

TEST(MatmulLayout, RowsAndColumnsOfOneElement) {
  for (auto [m, n, k] : {std::tuple(1, 3, 4), {5, 1, 4}, {5, 3, 1}, {1, 1, 4}, {1, 3, 1}, {5, 1, 1}, {1, 1, 1}}) {
    GemmProblem p = rowMajor(m, n, k);
    expectSamePlaces(p);
    std::tie(p.aRowStride, p.aColumnStride) = std::pair<int64_t, int64_t>(k == 1 ? 9 : k, k == 1 ? 0 : 1);
    expectSamePlaces(p);
    std::tie(p.cRowStride, p.cColumnStride) = std::pair<int64_t, int64_t>(n == 1 ? 6 : n, n == 1 ? 0 : 1);
    expectSamePlaces(p);
  }
}

/// Heads of attention: slices of one packed tensor [batch, sequence, 3, heads, width].
TEST(MatmulLayout, TwoBatchDimensionsMakeOneBatchAndOneLoop) {
  const int64_t batch = 4, heads = 3, sequence = 5, width = 2, row = 3 * heads * width;
  GemmProblem p{.m = sequence, .n = sequence, .k = width, .aRowStride = row, .aColumnStride = 1, .bRowStride = 1,
                .bColumnStride = row, .cRowStride = sequence, .cColumnStride = 1, .batchDims = 2};
  p.batch[0] = {batch, sequence * row, sequence * row, heads * sequence * sequence};
  p.batch[1] = {heads, width, width, sequence * sequence};
  MatmulLayout layout = *chooseMatmulLayout(p);
  EXPECT_EQ(layout.batch, batch);
  EXPECT_EQ(layout.outer, heads);
  expectSamePlaces(p);
}

TEST(MatmulLayout, NeighbouringDimensionsMerge) {
  GemmProblem p = rowMajor(5, 3, 4);
  p.batchDims = 3;
  p.batch[0] = {2, 7 * 20, 0, 7 * 15};
  p.batch[1] = {1, 999, 999, 999};
  p.batch[2] = {7, 20, 0, 15};
  MatmulLayout layout = *chooseMatmulLayout(p);
  EXPECT_EQ(layout.batch, 14);
  EXPECT_EQ(layout.outer, 1);
  expectSamePlaces(p);
}

TEST(MatmulLayout, RandomProblems) {
  std::mt19937 random(3);
  auto upTo = [&](int64_t most) { return 1 + static_cast<int64_t>(random() % most); };
  for (int i = 0; i < 500; ++i) {
    GemmProblem p{.m = upTo(4), .n = upTo(4), .k = upTo(4)};
    auto lay = [&](int64_t rows, int64_t columns, int64_t &rowStride, int64_t &columnStride) {
      bool rowsFirst = random() % 2;
      rowStride = rowsFirst ? columns + random() % 3 : 1;
      columnStride = rowsFirst ? 1 : rows + random() % 3;
    };
    lay(p.m, p.k, p.aRowStride, p.aColumnStride);
    lay(p.k, p.n, p.bRowStride, p.bColumnStride);
    lay(p.m, p.n, p.cRowStride, p.cColumnStride);
    p.batchDims = random() % 3;
    for (int d = 0; d < p.batchDims; ++d)
      p.batch[d] = {upTo(3), upTo(100), upTo(100), upTo(100)};
    expectSamePlaces(p);
  }
}

TEST(MatmulLayout, RefusesWhatTheLibraryCannotTake) {
  auto refused = [](auto change) {
    GemmProblem p = rowMajor(5, 3, 4);
    change(p);
    return chooseMatmulLayout(p).status().code() == ExitCode::BadData;
  };
  EXPECT_TRUE(refused([](GemmProblem &p) { p.aColumnStride = 2, p.aRowStride = 8; })); // no contiguous dimension
  EXPECT_TRUE(refused([](GemmProblem &p) { p.aRowStride = 3; }));                      // rows overlap
  EXPECT_TRUE(refused([](GemmProblem &p) { p.bRowStride = 0; }));                      // one row for all
  EXPECT_TRUE(refused([](GemmProblem &p) { p.cColumnStride = 2, p.cRowStride = 6; }));
  EXPECT_TRUE(refused([](GemmProblem &p) { p.aRowStride = int64_t(1) << 31; }));
  EXPECT_TRUE(refused([](GemmProblem &p) {
    p.batchDims = 3;
    p.batch[0] = {2, 1000, 1000, 1000}, p.batch[1] = {2, 100, 100, 100}, p.batch[2] = {2, 30, 30, 30};
  }));
}

} // namespace
} // namespace tapeout::rt
