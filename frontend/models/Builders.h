// One function per family of built-in models. Their sizes are checked by models/Registry.cpp: positive, at most
// kMaxSize, dropout in [0, 1).
#pragma once

#include "frontend/Graph.h"

#include <array>
#include <string>
#include <vector>

namespace tapeout::frontend {

/// Keeps products of three sizes far from overflow.
constexpr int64_t kMaxSize = 1 << 24;
constexpr int64_t kMaxLayers = 4096;
constexpr int64_t kMaxImage = 1 << 14;
constexpr int64_t kMaxChannels = 1 << 12;

struct MlpSizes {
  int64_t inputs = 784;
  std::vector<int64_t> hidden = {512, 512};
  int64_t classes = 10;
  double dropout = 0;
};

/// Linear layers with relu between them; "images" f32 [batch, inputs] to logits [batch, classes].
Graph buildMlp(std::string name, const MlpSizes &sizes);

struct ImageSizes {
  int64_t image = 28; ///< height and width
  int64_t channels = 1;
  int64_t classes = 10;
  int64_t width = 32; ///< filters of the first convolution
};

/// Two convolutions and two linear layers (after LeCun et al. 1998); "images" f32 [batch, channels, image, image] to logits
/// [batch, classes]. The image is at least 4 wide.
Graph buildLenet(std::string name, const ImageSizes &sizes);

/// U-Net (Ronneberger et al. 2015) with batch norm; logits [batch, image, image, classes] for each pixel. The image is a
/// multiple of 16. Planes grow by transposed convolutions, as in the paper.
Graph buildUnet(std::string name, const ImageSizes &sizes);

struct ResnetSizes : ImageSizes {
  std::array<int64_t, 4> blocks = {2, 2, 2, 2}; ///< of each stage
  bool bottleneck = false;
};

/// ResNet (He et al. 2015), with the stride in the 3 x 3 convolution of a bottleneck.
Graph buildResnet(std::string name, const ResnetSizes &sizes);

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

struct LlamaSizes {
  int64_t layers = 4;
  int64_t heads = 4;
  int64_t keyHeads = 2; ///< a divisor of heads
  int64_t width = 128;  ///< an even multiple of heads
  int64_t hidden = 0;   ///< of the MLP; 0: defaultHidden()
  int64_t context = 64;
  int64_t vocabulary = 256;
  double dropout = 0;

  /// The least multiple of 32 from 8/3 of the width on: as many products as an MLP of four times the width.
  int64_t defaultHidden() const { return (8 * width / 3 + 31) / 32 * 32; }
};

/// Llama (Touvron et al. 2023): RMS norm, rotary positions, SwiGLU, grouped-query attention, a head of its own and no
/// biases; "tokens" i32 [batch, context] to logits [batch, context, vocabulary].
Graph buildLlama(std::string name, const LlamaSizes &sizes);

struct BertSizes {
  int64_t layers = 4;
  int64_t heads = 4;
  int64_t width = 128; ///< a multiple of heads
  int64_t context = 64;
  int64_t vocabulary = 257; ///< bytes and the mask token
  int64_t maskToken = -1;   ///< below the vocabulary; -1: its last
  double dropout = 0;
};

/// BERT (Devlin et al. 2018) with the masked-language-model head, without its segments: "tokens" i32 [batch, context] to
/// logits [batch, context, vocabulary].
Graph buildBert(std::string name, const BertSizes &sizes);

struct VitSizes {
  int64_t image = 224; ///< a multiple of patch
  int64_t patch = 16;
  int64_t layers = 12;
  int64_t heads = 12;
  int64_t width = 768; ///< a multiple of heads
  int64_t classes = 1000;
  double dropout = 0;
};

/// Vision transformer (Dosovitskiy et al. 2020) with a class token; "images" f32 [batch, 3, image, image] to logits
/// [batch, classes].
Graph buildVit(std::string name, const VitSizes &sizes);

} // namespace tapeout::frontend
