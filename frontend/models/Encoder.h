// What the encoders, Bert and Vit, have in common.
#pragma once

#include "frontend/GraphBuilder.h"

namespace tapeout::frontend {

/// Parts of a transformer block whose tokens all see each other: attention and a wide MLP with exact GELU. Weights
/// start from a normal distribution, biases from zero.
class Encoder {
public:
  Encoder(GraphBuilder &builder, int64_t heads, double deviation, double dropout)
      : g_(builder), heads_(heads), deviation_(deviation), dropout_(dropout) {}

  /// Layer "attn" of x [batch, tokens, width].
  Value attention(Value x);
  /// Layer "mlp": four times as wide inside.
  Value mlp(Value x);
  Value linear(std::string_view name, Value x, int64_t outputs);
  Value dropped(Value x) { return g_.dropout(x, dropout_); }
  /// x plus a learned [tokens, width] for every sample.
  Value addPositions(std::string_view name, Value x);

private:
  GraphBuilder &g_;
  const int64_t heads_;
  const double deviation_, dropout_;
};

} // namespace tapeout::frontend
