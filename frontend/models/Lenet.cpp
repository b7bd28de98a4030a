#include "frontend/GraphBuilder.h"
#include "frontend/models/Builders.h"

#include <cmath>

namespace tapeout::frontend {

Graph buildLenet(std::string name, const ImageSizes &sizes) {
  GraphBuilder g(std::move(name), Task::Classification);
  // The default of torch.nn.Conv2d and torch.nn.Linear.
  const auto drawn = [](int64_t inputs) {
    const double bound = 1 / std::sqrt(static_cast<double>(inputs));
    return uniform(-bound, bound);
  };
  const auto convolution = [&](std::string_view layer, Value x, int64_t filters) {
    const Initializer start = drawn(g.extent(x, 1) * 9);
    const Value y = g.convolution(layer, x, filters, {.size = 3, .padding = 1}, start, start);
    const auto scope = g.scope(layer); // what follows belongs to the layer
    return g.maxPool(g.relu(y), {.size = 2, .stride = 2});
  };
  const auto linear = [&](std::string_view layer, Value x, int64_t outputs) {
    const Initializer start = drawn(g.extent(x, -1));
    return g.linear(layer, x, outputs, start, start);
  };

  Value x = g.input("images", {ElementType::F32, {kBatch, sizes.channels, sizes.image, sizes.image}});
  x = convolution("conv1", x, sizes.width);
  x = convolution("conv2", x, 2 * sizes.width);
  x = g.reshape(x, {kBatch, g.extent(x, 1) * g.extent(x, 2) * g.extent(x, 3)});
  x = g.relu(linear("fc1", x, 4 * sizes.width));
  Graph graph = g.finish(linear("fc2", x, sizes.classes));
  graph.vocabulary = sizes.classes;
  return graph;
}

} // namespace tapeout::frontend
