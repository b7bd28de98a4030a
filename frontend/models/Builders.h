// One function per family of built-in models. Their sizes are checked by models/Registry.cpp: positive, at most
// kMaxSize, dropout in [0, 1).
#pragma once

#include "frontend/Graph.h"

#include <string>
#include <vector>

namespace tapeout::frontend {

/// Keeps products of three sizes far from overflow.
constexpr int64_t kMaxSize = 1 << 24;
constexpr int64_t kMaxLayers = 4096;

struct MlpSizes {
  int64_t inputs = 784;
  std::vector<int64_t> hidden = {512, 512};
  int64_t classes = 10;
  double dropout = 0;
};

/// Linear layers with relu between them; "images" f32 [batch, inputs] to logits [batch, classes].
Graph buildMlp(std::string name, const MlpSizes &sizes);

struct GptSizes {
  int64_t layers = 4;
  int64_t heads = 4;
  int64_t width = 128; ///< a multiple of heads
  int64_t context = 64;
  int64_t vocabulary = 256;
  double dropout = 0;
};

/// GPT-2 (Radford et al. 2019); "tokens" i32 [batch, context] to logits [batch, context, vocabulary].
Graph buildGpt(std::string name, const GptSizes &sizes);

} // namespace tapeout::frontend
