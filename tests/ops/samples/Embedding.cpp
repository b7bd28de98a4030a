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
  };
}

} // namespace tapeout::ops
