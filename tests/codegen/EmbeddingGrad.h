// The gradient of an embedding as each target computes it: one kernel, or three on sorted ids.
#pragma once

#include "tests/codegen/KernelTester.h"

namespace tapeout::codegen {

struct EmbeddingGradCase {
  int64_t tokens, rows, width;
  std::string idType = "i32", element = "f32";
};

/// [rows, width] of `element`.
Tensor runEmbeddingGrad(const EmbeddingGradCase &sizes, const Tensor &ids, const Tensor &gradient);

} // namespace tapeout::codegen
