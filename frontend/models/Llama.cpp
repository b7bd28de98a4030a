#include "frontend/GraphBuilder.h"
#include "frontend/models/Builders.h"

#include <fmt/format.h>

#include <cmath>

namespace tapeout::frontend {
namespace {

constexpr double kEpsilon = 1e-5;
constexpr double kDeviation = 0.02;
constexpr double kRopeBase = 10000;

class Llama {
public:
  Llama(std::string name, const LlamaSizes &sizes)
      : g_(std::move(name), Task::LanguageModel), sizes_(sizes), headSize_(sizes.width / sizes.heads) {}

  Graph build() {
    const Value tokens = g_.input("tokens", {ElementType::I32, {kBatch, sizes_.context}});
    const Value table = g_.parameter("wte.weight", {sizes_.vocabulary, sizes_.width}, normal(0, kDeviation));
    const auto positions = rotations();
    Value x = embed(tokens, table);
    for (int64_t i = 0; i < sizes_.layers; ++i) {
      const auto block = g_.scope(fmt::format("blocks.{}", i));
      x = g_.add(x, attention(g_.rmsNorm("norm1", x, kEpsilon), positions));
      x = g_.add(x, mlp(g_.rmsNorm("norm2", x, kEpsilon)));
    }
    x = g_.rmsNorm("norm", x, kEpsilon);

    Graph graph = g_.finish(linear("head", x, sizes_.vocabulary, kDeviation));
    graph.context = sizes_.context;
    graph.vocabulary = sizes_.vocabulary;
    return graph;
  }

private:
  GraphBuilder::RopeTable rotations() {
    const auto scope = g_.scope("rope");
    return g_.ropeTable(sizes_.context, headSize_, kRopeBase);
  }

  Value embed(Value tokens, Value table) {
    const auto scope = g_.scope("embedding");
    return g_.dropout(g_.embedding(table, tokens), sizes_.dropout);
  }

  Value attention(Value x, const GraphBuilder::RopeTable &positions) {
    const auto scope = g_.scope("attn");
    const Value q = g_.rope(heads("q", x, sizes_.heads), positions);
    const Value k = g_.rope(heads("k", x, sizes_.keyHeads), positions);
    const Value v = heads("v", x, sizes_.keyHeads);
    const Value mixed = g_.attention(
        q, k, v, {.causal = true, .scale = 1 / std::sqrt(static_cast<double>(headSize_)), .dropout = sizes_.dropout});
    return residual("proj", g_.reshape(mixed, {kBatch, sizes_.context, sizes_.width}));
  }

  /// [batch, tokens, count, head size]
  Value heads(std::string_view name, Value x, int64_t count) {
    return g_.reshape(linear(name, x, count * headSize_, kDeviation), {kBatch, sizes_.context, count, headSize_});
  }

  /// SwiGLU (Shazeer 2020).
  Value mlp(Value x) {
    const auto scope = g_.scope("mlp");
    const Value gate = g_.silu(linear("gate", x, sizes_.hidden, kDeviation));
    return residual("down", g_.multiply(gate, linear("up", x, sizes_.hidden, kDeviation)));
  }

  /// The end of a residual branch, which starts small as in Gpt.cpp.
  Value residual(std::string_view name, Value x) {
    const double deviation = kDeviation / std::sqrt(2.0 * static_cast<double>(sizes_.layers));
    return g_.dropout(linear(name, x, sizes_.width, deviation), sizes_.dropout);
  }

  Value linear(std::string_view name, Value x, int64_t outputs, double deviation) {
    return g_.linear(name, x, outputs, normal(0, deviation), std::nullopt);
  }

  GraphBuilder g_;
  const LlamaSizes &sizes_;
  const int64_t headSize_;
};

} // namespace

Graph buildLlama(std::string name, const LlamaSizes &sizes) { return Llama(std::move(name), sizes).build(); }

} // namespace tapeout::frontend
