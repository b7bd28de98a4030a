#include "frontend/models/Encoder.h"

#include <cmath>

namespace tapeout::frontend {

Value Encoder::attention(Value x) {
  const auto scope = g_.scope("attn");
  const int64_t tokens = g_.extent(x, 1), width = g_.extent(x, 2), size = width / heads_;
  const Value qkv = linear("qkv", x, 3 * width);
  std::vector<Value> parts = g_.split(g_.reshape(qkv, {kBatch, tokens, 3, heads_, size}), 2, 3);
  for (Value &part : parts)
    part = g_.reshape(part, {kBatch, tokens, heads_, size});
  const Value mixed = g_.attention(
      parts[0], parts[1], parts[2],
      {.causal = false, .scale = 1 / std::sqrt(static_cast<double>(size)), .dropout = dropout_});
  return dropped(linear("proj", g_.reshape(mixed, {kBatch, tokens, width}), width));
}

Value Encoder::mlp(Value x) {
  const auto scope = g_.scope("mlp");
  const int64_t width = g_.extent(x, 2);
  const Value hidden = linear("fc", x, 4 * width);
  return dropped(linear("proj", g_.gelu(hidden, /*tanhApproximate=*/false), width));
}

Value Encoder::linear(std::string_view name, Value x, int64_t outputs) {
  return g_.linear(name, x, outputs, normal(0, deviation_), zeros());
}

Value Encoder::addPositions(std::string_view name, Value x) {
  const GraphBuilder::Shape shape = g_.shape(x);
  const Value table = g_.parameter(name, {shape[1], shape[2]}, normal(0, deviation_));
  return g_.add(x, g_.broadcast(table, shape, {1, 2}));
}

} // namespace tapeout::frontend
