#include "frontend/GraphBuilder.h"
#include "frontend/models/Builders.h"

#include <fmt/format.h>

#include <cmath>

namespace tapeout::frontend {
namespace {

constexpr double kEpsilon = 1e-5;
constexpr double kDeviation = 0.02;

class Gpt {
public:
  Gpt(std::string name, const GptSizes &sizes) : g_(std::move(name), Task::LanguageModel), sizes_(sizes) {}

  Graph build() {
    const auto [layers, heads, width, context, vocabulary, dropout] = sizes_;
    const Value tokens = g_.input("tokens", {ElementType::I32, {kBatch, context}});
    const Value tokenTable = g_.parameter("wte.weight", {vocabulary, width}, normal(0, kDeviation));
    const Value positionTable = g_.parameter("wpe.weight", {context, width}, normal(0, kDeviation));

    Value x = embed(tokens, tokenTable, positionTable);
    for (int64_t i = 0; i < layers; ++i) {
      const auto block = g_.scope(fmt::format("blocks.{}", i));
      x = g_.add(x, attention(g_.layerNorm("ln1", x, kEpsilon)));
      x = g_.add(x, mlp(g_.layerNorm("ln2", x, kEpsilon)));
    }
    x = g_.layerNorm("lnf", x, kEpsilon);

    Graph graph = g_.finish(head(x, tokenTable));
    graph.context = context;
    graph.vocabulary = vocabulary;
    return graph;
  }

private:
  Value embed(Value tokens, Value tokenTable, Value positionTable) {
    const auto scope = g_.scope("embedding");
    const Value token = g_.embedding(tokenTable, tokens);
    const Value position = g_.broadcast(positionTable, {kBatch, sizes_.context, sizes_.width}, {1, 2});
    return g_.dropout(g_.add(token, position), sizes_.dropout);
  }

  Value attention(Value x) {
    const auto scope = g_.scope("attn");
    const int64_t heads = sizes_.heads, headSize = sizes_.width / heads, context = sizes_.context;
    const Value qkv = linear("qkv", x, 3 * sizes_.width, kDeviation);
    std::vector<Value> parts = g_.split(g_.reshape(qkv, {kBatch, context, 3, heads, headSize}), 2, 3);
    for (Value &part : parts)
      part = g_.reshape(part, {kBatch, context, heads, headSize});
    const Value mixed = g_.attention(
        parts[0], parts[1], parts[2],
        {.causal = true, .scale = 1 / std::sqrt(static_cast<double>(headSize)), .dropout = sizes_.dropout});
    return residual("proj", g_.reshape(mixed, {kBatch, context, sizes_.width}));
  }

  Value mlp(Value x) {
    const auto scope = g_.scope("mlp");
    const Value hidden = linear("fc", x, 4 * sizes_.width, kDeviation);
    return residual("proj", g_.gelu(hidden, /*tanhApproximate=*/true));
  }

  /// The end of a residual branch. Its small start keeps the variance of the sum of 2 x layers branches at that of one.
  Value residual(std::string_view name, Value x) {
    const double deviation = kDeviation / std::sqrt(2.0 * static_cast<double>(sizes_.layers));
    return g_.dropout(linear(name, x, sizes_.width, deviation), sizes_.dropout);
  }

  Value linear(std::string_view name, Value x, int64_t outputs, double deviation) {
    return g_.linear(name, x, outputs, normal(0, deviation), zeros());
  }

  /// The logits; their weight is the token table.
  Value head(Value x, Value tokenTable) {
    const auto scope = g_.scope("head");
    return g_.matmul(x, tokenTable, 1);
  }

  GraphBuilder g_;
  const GptSizes &sizes_;
};

} // namespace

Graph buildGpt(std::string name, const GptSizes &sizes) { return Gpt(std::move(name), sizes).build(); }

} // namespace tapeout::frontend
