#include "tests/codegen/EmbeddingGrad.h"

#include <fmt/format.h>

namespace tapeout::codegen {

Tensor runEmbeddingGrad(const EmbeddingGradCase &c, const Tensor &ids, const Tensor &gradient) {
  KernelTester kernels(fmt::format(R"(
plan.kernel @k {{ ^bb0(%i: tensor<{0}x{3}>, %g: tensor<{0}x{2}x{4}>):
  %r = tape.embedding_grad %i, %g rows {1} : tensor<{0}x{3}>, tensor<{0}x{2}x{4}>
  tape.yield %r : tensor<{1}x{2}x{4}> }})",
                                   c.tokens, c.rows, c.width, c.idType, c.element));
  EXPECT_TRUE(kernels.loaded()) << kernels.messages();
  return kernels.run("k", {ids, gradient}, {Tensor::empty<char>(gradient.size() / c.tokens * c.rows)})[0];
}

} // namespace tapeout::codegen
