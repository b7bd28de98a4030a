// The gradient of an embedding, for ids of any distribution.
#include "tests/codegen/EmbeddingGrad.h"

#include <functional>

namespace tapeout::codegen {
namespace {

using IdOf = std::function<int64_t(int64_t)>;

template <typename Id> void check(EmbeddingGradCase sizes, const std::string &what, const IdOf &idOf) {
  std::vector<Id> ids(sizes.tokens);
  std::vector<float> gradient(sizes.tokens * sizes.width), expected(sizes.rows * sizes.width, 0.0f);
  for (int64_t i = 0; i < sizes.tokens * sizes.width; ++i) {
    int64_t id = ids[i / sizes.width] = idOf(i / sizes.width);
    gradient[i] = i % 7 - 3.0f; // sums are exact in any order
    if (id >= 0 && id < sizes.rows)
      expected[id * sizes.width + i % sizes.width] += gradient[i];
  }
  Tensor result = runEmbeddingGrad(sizes, Tensor::of(ids), Tensor::of(gradient));
  EXPECT_EQ(result.values<float>(), expected) << what;
}

TEST(EmbeddingGradTest, AFewRowsAreAddedInTheOrderOfIds) {
  constexpr int64_t kTokens = 37, kRows = 10;
  for (int64_t width : {1, 15, 17, 64, 150}) {
    std::vector<int32_t> ids(kTokens);
    for (int64_t i = 0; i < kTokens; ++i)
      ids[i] = i * 7 % kRows;
    ids[5] = -1;
    ids[36] = kRows;
    ids[20] = INT32_MIN;
    auto gradient = randomFloats(kTokens * width, -1, 1);
    std::vector<float> expected(kRows * width, 0.0f);
    for (int64_t i = 0; i < kTokens * width; ++i)
      if (int32_t id = ids[i / width]; id >= 0 && id < kRows)
        expected[id * width + i % width] += gradient[i];
    Tensor result = runEmbeddingGrad({kTokens, kRows, width}, Tensor::of(ids), Tensor::of(gradient));
    EXPECT_EQ(result.values<float>(), expected) << width;
  }
}

TEST(EmbeddingGradTest, FrequentIdsAreSummed) {
  check<int32_t>({9001, 530, 3}, "five rows have most", [](int64_t i) { return i % 3 ? i % 5 : i % 531; });
  check<int32_t>({9001, 530, 3}, "one row has all", [](int64_t) { return 300; });
  check<int32_t>({9001, 530, 3}, "a quarter is of one row", [](int64_t i) { return i % 4 ? i * 7919 % 530 : 511; });
  check<int32_t>({256, 4, 8}, "runs end where pieces do", [](int64_t i) { return i / 64; });
  check<int32_t>({256, 4, 8}, "none is in the table", [](int64_t i) { return i % 2 ? -5 : 4; });
  check<int64_t>({300, 4, 8, "i64"}, "ids beyond i32", [](int64_t i) { return i % 3 ? int64_t(1) << 32 : 3; });
}

TEST(EmbeddingGradTest, RowsMayBeWide) {
  check<int32_t>({9, 3, 2600}, "wide", [](int64_t i) { return i % 3; });
}

} // namespace
} // namespace tapeout::codegen
