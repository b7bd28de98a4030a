// What tapeout-gpu-test checks of our own kernels for the gradient of attention; gpu-attention-plans compiles it.
#pragma once

#include "tests/runtime/AttentionReference.h"

#include <fmt/format.h>

namespace tapeout::rt::test {

struct KernelAttentionCase {
  AttentionShape shape;
  bool sums; ///< whether the kernels also sum the columns of their gradients

  std::string fileName() const {
    return fmt::format("attention-{}-{}-{}x{}x{}{}.plan", name(shape.type), shape.causal ? "causal" : "full",
                       shape.batch, shape.tokens, shape.heads, sums ? "-sums" : "");
  }
};

/// Heads of 64 elements. Tokens that fill tiles of 64 and that do not; odd tiles; more pairs of rows than a GPU has
/// multiprocessors; few tokens.
inline std::vector<KernelAttentionCase> kernelAttentionCases() {
  using Type = tapeout::ElementType;
  auto shape = [](Type type, bool causal, int64_t batch, int64_t tokens, int64_t heads) {
    return AttentionShape{type, causal, batch, heads, heads, tokens, 64};
  };
  return {{shape(Type::BF16, true, 2, 1024, 4), false}, {shape(Type::BF16, true, 2, 1024, 4), true},
          {shape(Type::F16, true, 2, 1024, 4), true},   {shape(Type::BF16, false, 2, 512, 4), true},
          {shape(Type::F16, false, 2, 512, 4), false},  {shape(Type::BF16, true, 19, 192, 7), true},
          {shape(Type::BF16, false, 19, 192, 7), true}, {shape(Type::F16, true, 19, 192, 7), false},
          {shape(Type::BF16, true, 2, 1000, 4), true},  {shape(Type::F16, false, 2, 1000, 4), true},
          {shape(Type::BF16, true, 3, 200, 3), false},  {shape(Type::BF16, false, 3, 72, 5), true},
          {shape(Type::BF16, true, 1, 4096, 2), true},  {shape(Type::BF16, true, 2, 5, 3), true},
          {shape(Type::F16, false, 2, 1, 3), true}};
}

} // namespace tapeout::rt::test
