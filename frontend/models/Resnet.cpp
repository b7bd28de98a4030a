#include "frontend/GraphBuilder.h"
#include "frontend/models/Builders.h"

#include <fmt/format.h>

#include <cmath>

namespace tapeout::frontend {
namespace {

/// Layers and parameters are named and start as those of torchvision.
class Resnet {
public:
  Resnet(std::string name, const ResnetSizes &sizes) : g_(std::move(name), Task::Classification), sizes_(sizes) {}

  Graph build() {
    Value x = g_.input("images", {ElementType::F32, {kBatch, sizes_.channels, sizes_.image, sizes_.image}});
    x = normalized("conv1", "bn1", x, sizes_.width, {.size = 7, .stride = 2, .padding = 3});
    x = g_.maxPool(g_.relu(x), {.size = 3, .stride = 2, .padding = 1});
    for (int64_t stage = 0; stage < 4; ++stage)
      for (int64_t i = 0; i < sizes_.blocks[stage]; ++i) {
        const auto scope = g_.scope(fmt::format("layer{}.{}", stage + 1, i));
        x = block(x, sizes_.width << stage, stage > 0 && i == 0 ? 2 : 1);
      }
    x = g_.globalAverage(x);
    const double bound = 1 / std::sqrt(static_cast<double>(g_.extent(x, 1)));
    Graph graph = g_.finish(g_.linear("fc", x, sizes_.classes, uniform(-bound, bound), uniform(-bound, bound)));
    graph.vocabulary = sizes_.classes;
    return graph;
  }

private:
  using Window = GraphBuilder::WindowOptions;

  Value block(Value x, int64_t width, int64_t stride) {
    const int64_t outputs = sizes_.bottleneck ? 4 * width : width;
    const Value y = sizes_.bottleneck ? bottleneck(x, width, stride) : basic(x, width, stride);
    const bool same = stride == 1 && g_.extent(x, 1) == outputs;
    const Value shortcut =
        same ? x : normalized("downsample.0", "downsample.1", x, outputs, {.size = 1, .stride = stride});
    return g_.relu(g_.add(y, shortcut));
  }

  Value basic(Value x, int64_t width, int64_t stride) {
    x = g_.relu(normalized("conv1", "bn1", x, width, {.size = 3, .stride = stride, .padding = 1}));
    return normalized("conv2", "bn2", x, width, {.size = 3, .padding = 1});
  }

  Value bottleneck(Value x, int64_t width, int64_t stride) {
    x = g_.relu(normalized("conv1", "bn1", x, width, {.size = 1}));
    x = g_.relu(normalized("conv2", "bn2", x, width, {.size = 3, .stride = stride, .padding = 1}));
    return normalized("conv3", "bn3", x, 4 * width, {.size = 1});
  }

  /// A convolution without bias, which the normalisation would take away; He's start by the fan-out.
  Value normalized(std::string_view convolution, std::string_view norm, Value x, int64_t filters,
                   const Window &window) {
    const double fanOut = static_cast<double>(filters * window.size * window.size);
    const Value y = g_.convolution(convolution, x, filters, window, normal(0, std::sqrt(2 / fanOut)), std::nullopt);
    return g_.batchNorm(norm, y);
  }

  GraphBuilder g_;
  const ResnetSizes &sizes_;
};

} // namespace

Graph buildResnet(std::string name, const ResnetSizes &sizes) { return Resnet(std::move(name), sizes).build(); }

} // namespace tapeout::frontend
