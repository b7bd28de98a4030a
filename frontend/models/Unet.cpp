#include "frontend/GraphBuilder.h"
#include "frontend/models/Builders.h"

#include <fmt/format.h>

#include <cmath>

namespace tapeout::frontend {
namespace {

constexpr int64_t kLevels = 4; // planes are halved so often

class Unet {
public:
  Unet(std::string name, const ImageSizes &sizes) : g_(std::move(name), Task::Classification), sizes_(sizes) {}

  Graph build() {
    Value x = g_.input("images", {ElementType::F32, {kBatch, sizes_.channels, sizes_.image, sizes_.image}});
    std::vector<Value> skips;
    for (int64_t level = 0; level < kLevels; ++level) {
      skips.push_back(twice(fmt::format("down{}", level), x, sizes_.width << level));
      x = g_.maxPool(skips.back(), {.size = 2, .stride = 2});
    }
    x = twice("bottom", x, sizes_.width << kLevels);
    for (int64_t level = kLevels; level-- > 0;) {
      const auto scope = g_.scope(fmt::format("up{}", level));
      const int64_t width = sizes_.width << level;
      const Value larger =
          g_.transposedConvolution("rise", x, width, {.size = 2, .stride = 2}, drawn(width * 4), drawn(width * 4));
      x = twice("join", g_.concatenate({skips[static_cast<size_t>(level)], larger}, 1), width);
    }
    const Initializer start = drawn(g_.extent(x, 1));
    x = g_.convolution("classes", x, sizes_.classes, {.size = 1}, start, start);
    Graph graph = g_.finish(g_.transpose(x, {0, 2, 3, 1})); // the logits of each pixel
    graph.vocabulary = sizes_.classes;
    return graph;
  }

private:
  /// The default of torch.nn.Conv2d.
  static Initializer drawn(int64_t fanIn) {
    const double bound = 1 / std::sqrt(static_cast<double>(fanIn));
    return uniform(-bound, bound);
  }

  Value twice(std::string_view name, Value x, int64_t width) {
    const auto scope = g_.scope(name);
    for (int64_t i = 0; i < 2; ++i) {
      const Value y = g_.convolution(fmt::format("conv{}", i), x, width, {.size = 3, .padding = 1},
                                     drawn(g_.extent(x, 1) * 9), std::nullopt);
      x = g_.relu(g_.batchNorm(fmt::format("norm{}", i), y));
    }
    return x;
  }

  GraphBuilder g_;
  const ImageSizes &sizes_;
};

} // namespace

Graph buildUnet(std::string name, const ImageSizes &sizes) { return Unet(std::move(name), sizes).build(); }

} // namespace tapeout::frontend
