#include "frontend/GraphBuilder.h"
#include "frontend/models/Builders.h"
#include "frontend/models/Encoder.h"

#include <fmt/format.h>

namespace tapeout::frontend {
namespace {

constexpr double kEpsilon = 1e-6;
constexpr double kDeviation = 0.02;
constexpr int64_t kChannels = 3;

class Vit {
public:
  Vit(std::string name, const VitSizes &sizes)
      : g_(std::move(name), Task::Classification), encoder_(g_, sizes.heads, kDeviation, sizes.dropout),
        sizes_(sizes) {}

  Graph build() {
    const Value images = g_.input("images", {ElementType::F32, {kBatch, kChannels, sizes_.image, sizes_.image}});
    Value x = embed(patches(images));
    for (int64_t i = 0; i < sizes_.layers; ++i) {
      const auto block = g_.scope(fmt::format("blocks.{}", i));
      x = g_.add(x, encoder_.attention(g_.layerNorm("ln1", x, kEpsilon)));
      x = g_.add(x, encoder_.mlp(g_.layerNorm("ln2", x, kEpsilon)));
    }

    Graph graph = g_.finish(head(x));
    graph.vocabulary = sizes_.classes;
    return graph;
  }

private:
  /// [batch, patches, channels * patch * patch]. A product with them is the convolution whose stride is the patch; the
  /// weight has the order of a convolution's.
  Value patches(Value images) {
    const auto scope = g_.scope("patches");
    const int64_t count = sizes_.image / sizes_.patch, patch = sizes_.patch;
    const Value cut = g_.reshape(images, {kBatch, kChannels, count, patch, count, patch});
    const Value ordered = g_.transpose(cut, {0, 2, 4, 1, 3, 5});
    const Value rows = g_.reshape(ordered, {kBatch, count * count, kChannels * patch * patch});
    return encoder_.linear("fc", rows, sizes_.width);
  }

  /// Puts the class token before the patches.
  Value embed(Value x) {
    const auto scope = g_.scope("embedding");
    const Value token = g_.parameter("class", {sizes_.width}, normal(0, kDeviation));
    x = g_.concatenate({g_.broadcast(token, {kBatch, 1, sizes_.width}, {2}), x}, 1);
    return encoder_.dropped(encoder_.addPositions("positions", x));
  }

  Value head(Value x) {
    const auto scope = g_.scope("head");
    const Value token = g_.reshape(g_.slice(x, {0, 0, 0}, {kBatch, 1, sizes_.width}), {kBatch, sizes_.width});
    return encoder_.linear("fc", g_.layerNorm("ln", token, kEpsilon), sizes_.classes);
  }

  GraphBuilder g_;
  Encoder encoder_;
  const VitSizes &sizes_;
};

} // namespace

Graph buildVit(std::string name, const VitSizes &sizes) { return Vit(std::move(name), sizes).build(); }

} // namespace tapeout::frontend
