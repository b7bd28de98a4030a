#include "ir/tape/Embedding.h"

#include "tests/ops/Sample.h"

using namespace mlir;
using namespace tapeout::tape;

namespace tapeout::ops {

namespace {
Sample embedding(std::string name, int64_t rows, int64_t width, Input ids) {
  return {"embedding_" + name, {floats({rows, width}), ids},
          [](TapeBuilder &t, ValueRange x) -> Value { return t.builder().create<EmbeddingOp>(t.loc(), x[0], x[1]); },
          [width](const Arrays &x) {
            Arrays result(1);
            for (double id : x[1])
              for (int64_t i = 0; i < width; ++i)
                result[0].push_back(x[0][id * width + i]);
            return result;
          }};
}

// 100 ids of row 1 and 30 of row 2, sorted already: the first piece of 64 is of one id, the second is not, the third is short.
constexpr int64_t kSorted = 130, kOfRow1 = 100, kWidth = 3;
Input sortedIntegers(std::vector<int64_t> shape, const std::function<double(int64_t)> &value) {
  Input input{"i32", shape};
  for (int64_t i = 0; i < shape[0]; ++i)
    input.values.push_back(value(i));
  return input;
}
const Input kIds = sortedIntegers({kSorted}, [](int64_t i) { return i < kOfRow1 ? 1 : 2; });
const Input kOrder = sortedIntegers({kSorted}, [](int64_t i) { return i; });
const Input kBegins = {"i32", {4}, 0, 0, {0, 0, kOfRow1, kSorted}};
Input sortedGradient() {
  Input input = floats({kSorted, kWidth});
  for (int64_t i = 0; i < kSorted * kWidth; ++i)
    input.values.push_back(i % 11 - 5.0);
  return input;
}
std::vector<double> sumOfRows(const std::vector<double> &gradient, int64_t begin, int64_t end) {
  std::vector<double> sum(kWidth);
  for (int64_t i = begin * kWidth; i < end * kWidth; ++i)
    sum[i % kWidth] += gradient[i];
  return sum;
}
Input sortedPieces() {
  Input input = floats({3, kWidth});
  input.values = sumOfRows(sortedGradient().values, 0, SumSortedPiecesOp::kPiece);
  input.values.resize(3 * kWidth);
  return input;
}
} // namespace

std::vector<Sample> embeddingSamples() {
  return {
      embedding("matrix", 7, 3, integers({2, 5}, 0, 6)),
      embedding("repeated_ids", 4, 5, {"i32", {6}, 0, 0, {3, 3, 0, 3, 0, 1}}),
      embedding("i64", 3, 2, {"i64", {4}, 0, 2}),
      embedding("scalar_id", 3, 4, scalar("i32", 2)),
      {"embedding_grad",
       {{"i32", {5}, 0, 0, {2, 0, 2, 2, 1}}, floats({5, 3})},
       [](TapeBuilder &t, ValueRange x) -> Value {
         return t.builder().create<EmbeddingGradOp>(t.loc(), x[0], x[1], 4);
       },
       [](const Arrays &x) {
         Arrays result(1, std::vector<double>(12));
         for (size_t n = 0; n < 5; ++n)
           for (size_t i = 0; i < 3; ++i)
             result[0][x[0][n] * 3 + i] += x[1][n * 3 + i];
         return result;
       }},
      {"sort_ids",
       {{"i32", {9}, 0, 0, {2, 0, -1, 2, 1, 7, 2, 4, 0}}},
       [](TapeBuilder &t, ValueRange x) -> Value { return t.builder().create<SortIdsOp>(t.loc(), x[0], 4).getOrder(); },
       [](const Arrays &) { return Arrays{{1, 8, 4, 0, 3, 6, 2, 5, 7}, {0, 2, 3, 6, 6}}; },
       {},
       "cuda"},
      {"sum_sorted_pieces",
       {kIds, kOrder, floats({kSorted, kWidth})},
       [](TapeBuilder &t, ValueRange x) -> Value {
         return t.builder().create<SumSortedPiecesOp>(t.loc(), x[0], x[1], x[2]);
       },
       [](const Arrays &x) {
         Arrays result = {sumOfRows(x[2], 0, SumSortedPiecesOp::kPiece)};
         result[0].resize(3 * kWidth);
         return result;
       },
       {},
       "cuda"},
      {"sum_sorted_rows",
       {kOrder, kBegins, sortedPieces(), sortedGradient()},
       [](TapeBuilder &t, ValueRange x) -> Value {
         return t.builder().create<SumSortedRowsOp>(t.loc(), x[0], x[1], x[2], x[3], Value());
       },
       [](const Arrays &x) {
         Arrays result(1);
         for (auto [begin, end] : {std::pair(0, 0), std::pair<int, int>(0, kOfRow1), std::pair<int, int>(kOfRow1, kSorted)})
           for (double sum : sumOfRows(x[3], begin, end))
             result[0].push_back(sum);
         return result;
       },
       {},
       "cuda"},
      {"sum_sorted_rows_base",
       {kOrder, kBegins, sortedPieces(), sortedGradient(), floats({3, kWidth})},
       [](TapeBuilder &t, ValueRange x) -> Value {
         return t.builder().create<SumSortedRowsOp>(t.loc(), x[0], x[1], x[2], x[3], x[4]);
       },
       [](const Arrays &x) {
         Arrays result(1);
         size_t element = 0;
         for (auto [begin, end] : {std::pair(0, 0), std::pair<int, int>(0, kOfRow1), std::pair<int, int>(kOfRow1, kSorted)})
           for (double sum : sumOfRows(x[3], begin, end))
             result[0].push_back(x[4][element++] + sum);
         return result;
       },
       {},
       "cuda"},
  };
}

} // namespace tapeout::ops
