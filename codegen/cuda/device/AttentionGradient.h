// What the kernels of AttentionGradient.cpp are specialised by: shared by the compiler and the kernels.
#pragma once

#include <stdint.h>

namespace tapeout::codegen {

/// Element [b, t, h, i] of a tensor, of column sums t a tile of 64 tokens, lies offset + b * batch + t * token + h *
/// head + i elements behind its pointer.
struct AttentionPlace {
  int64_t offset, batch, token, head;
};

enum AttentionTensor {
  kQuery,
  kKey,
  kValue,
  kResult,
  kResultGradient,
  kQueryGradient,
  kKeyGradient,
  kValueGradient,
  kQuerySums,
  kKeySums,
  kValueSums,
  kAttentionTensors
};

struct AttentionSizes {
  int32_t batch, heads, tokens, causal;
  float scale;
  AttentionPlace places[kAttentionTensors];
};

constexpr int kAttentionHead = 64;  // elements of a head
constexpr int kAttentionTile = 64;  // tokens
constexpr int kAttentionGroups = 2; // warpgroups that compute; one more copies
constexpr int kAttentionThreads = 128 * (kAttentionGroups + 1);

} // namespace tapeout::codegen
