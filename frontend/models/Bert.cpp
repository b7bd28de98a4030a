#include "frontend/GraphBuilder.h"
#include "frontend/models/Builders.h"
#include "frontend/models/Encoder.h"

#include <fmt/format.h>

namespace tapeout::frontend {
namespace {

constexpr double kEpsilon = 1e-12;
constexpr double kDeviation = 0.02;

class Bert {
public:
  Bert(std::string name, const BertSizes &sizes)
      : g_(std::move(name), Task::MaskedLanguageModel), encoder_(g_, sizes.heads, kDeviation, sizes.dropout),
        sizes_(sizes) {}

  Graph build() {
    const Value tokens = g_.input("tokens", {ElementType::I32, {kBatch, sizes_.context}});
    const Value table = g_.parameter("wte.weight", {sizes_.vocabulary, sizes_.width}, normal(0, kDeviation));
    Value x = embed(tokens, table);
    for (int64_t i = 0; i < sizes_.layers; ++i) {
      const auto block = g_.scope(fmt::format("blocks.{}", i));
      x = g_.layerNorm("ln1", g_.add(x, encoder_.attention(x)), kEpsilon);
      x = g_.layerNorm("ln2", g_.add(x, encoder_.mlp(x)), kEpsilon);
    }

    Graph graph = g_.finish(head(x, table));
    graph.context = sizes_.context;
    graph.vocabulary = sizes_.vocabulary;
    graph.maskToken = sizes_.maskToken >= 0 ? sizes_.maskToken : sizes_.vocabulary - 1;
    return graph;
  }

private:
  Value embed(Value tokens, Value table) {
    const auto scope = g_.scope("embedding");
    const Value x = encoder_.addPositions("positions", g_.embedding(table, tokens));
    return encoder_.dropped(g_.layerNorm("ln", x, kEpsilon));
  }

  /// The logits of every position; their weight is the token table.
  Value head(Value x, Value table) {
    const auto scope = g_.scope("head");
    x = g_.gelu(encoder_.linear("fc", x, sizes_.width), /*tanhApproximate=*/false);
    const Value logits = g_.matmul(g_.layerNorm("ln", x, kEpsilon), table, 1);
    const Value bias = g_.parameter("bias", {sizes_.vocabulary}, zeros());
    return g_.add(logits, g_.broadcast(bias, g_.shape(logits), {2}));
  }

  GraphBuilder g_;
  Encoder encoder_;
  const BertSizes &sizes_;
};

} // namespace

Graph buildBert(std::string name, const BertSizes &sizes) { return Bert(std::move(name), sizes).build(); }

} // namespace tapeout::frontend
