#include "frontend/GraphBuilder.h"
#include "frontend/models/Builders.h"

#include <fmt/format.h>

#include <cmath>

namespace tapeout::frontend {

Graph buildMlp(std::string name, const MlpSizes &sizes) {
  GraphBuilder g(std::move(name), Task::Classification);
  int layer = 0;
  const auto linear = [&](Value x, int64_t outputs) {
    // The default of torch.nn.Linear.
    const double bound = 1 / std::sqrt(static_cast<double>(g.extent(x, -1)));
    return g.linear(fmt::format("layers.{}", layer++), x, outputs, uniform(-bound, bound), uniform(-bound, bound));
  };

  Value x = g.input("images", {ElementType::F32, {kBatch, sizes.inputs}});
  for (int64_t width : sizes.hidden) {
    x = linear(x, width);
    auto scope = g.scope(fmt::format("layers.{}", layer - 1)); // the activation belongs to the layer
    x = g.dropout(g.relu(x), sizes.dropout);
  }
  Graph graph = g.finish(linear(x, sizes.classes));
  graph.vocabulary = sizes.classes;
  return graph;
}

} // namespace tapeout::frontend
