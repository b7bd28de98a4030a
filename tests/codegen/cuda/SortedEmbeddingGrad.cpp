#include "tests/codegen/EmbeddingGrad.h"

#include <fmt/format.h>

namespace tapeout::codegen {

Tensor runEmbeddingGrad(const EmbeddingGradCase &c, const Tensor &ids, const Tensor &gradient) {
  int64_t pieces = (c.tokens + 63) / 64;
  KernelTester kernels(fmt::format(R"(
plan.kernel @sort {{ ^bb0(%i: tensor<{0}x{3}>):
  %o, %b = tape.sort_ids %i rows {1} : tensor<{0}x{3}>
  tape.yield %o, %b : tensor<{0}xi32>, tensor<{5}xi32> }}
plan.kernel @pieces {{ ^bb0(%i: tensor<{0}x{3}>, %o: tensor<{0}xi32>, %g: tensor<{0}x{2}x{4}>):
  %r = tape.sum_sorted_pieces %i, %o, %g : tensor<{0}x{3}>, tensor<{0}xi32>, tensor<{0}x{2}x{4}>
  tape.yield %r : tensor<{6}x{2}xf32> }}
plan.kernel @rows {{ ^bb0(%o: tensor<{0}xi32>, %b: tensor<{5}xi32>, %p: tensor<{6}x{2}xf32>, %g: tensor<{0}x{2}x{4}>):
  %r = tape.sum_sorted_rows %o, %b, %p, %g : tensor<{0}xi32>, tensor<{5}xi32>, tensor<{6}x{2}xf32>, tensor<{0}x{2}x{4}>
  tape.yield %r : tensor<{1}x{2}x{4}> }})",
                                   c.tokens, c.rows, c.width, c.idType, c.element, c.rows + 1, pieces));
  EXPECT_TRUE(kernels.loaded()) << kernels.messages();
  auto sorted = kernels.run("sort", {ids}, {Tensor::empty<int32_t>(c.tokens), Tensor::empty<int32_t>(c.rows + 1)});
  auto sums = kernels.run("pieces", {ids, sorted[0], gradient}, {Tensor::empty<float>(pieces * c.width)});
  return kernels.run("rows", {sorted[0], sorted[1], sums[0], gradient},
                     {Tensor::empty<char>(gradient.size() / c.tokens * c.rows)})[0];
}

} // namespace tapeout::codegen
