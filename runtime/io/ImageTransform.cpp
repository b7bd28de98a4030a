#include "runtime/io/ImageTransform.h"

#include <algorithm>
#include <cmath>

namespace tapeout::rt {

namespace {

constexpr int64_t kChannels = 3;

int64_t resizedFor(int64_t side) { return (8 * side + 6) / 7; }

/// The weights with which the pixels [first, first + weights.size()) of a line make one pixel of the result.
struct Taps {
  int64_t first = 0;
  std::vector<float> weights;
};

/// For the pixels [begin, begin + count) of a line of `from` pixels resized to `to`.
std::vector<Taps> makeTaps(int64_t from, int64_t to, int64_t begin, int64_t count) {
  double scale = static_cast<double>(from) / static_cast<double>(to);
  double radius = std::max(scale, 1.0);
  std::vector<Taps> all(count);
  for (int64_t i = 0; i < count; ++i) {
    double centre = (static_cast<double>(begin + i) + 0.5) * scale;
    auto first = std::max<int64_t>(0, static_cast<int64_t>(centre - radius + 0.5));
    auto end = std::min<int64_t>(from, static_cast<int64_t>(centre + radius + 0.5));
    std::vector<double> weights;
    double sum = 0;
    for (int64_t pixel = first; pixel < end; ++pixel) {
      weights.push_back(std::max(0.0, 1 - std::abs(static_cast<double>(pixel) + 0.5 - centre) / radius));
      sum += weights.back();
    }
    all[i].first = first;
    for (double weight : weights)
      all[i].weights.push_back(static_cast<float>(weight / sum));
  }
  return all;
}

Crop resizedCrop(const Image &image, int64_t width, int64_t height) {
  Crop crop{.width = width, .height = height};
  double scale = std::max(static_cast<double>(resizedFor(width)) / static_cast<double>(image.width),
                          static_cast<double>(resizedFor(height)) / static_cast<double>(image.height));
  auto scaled = [&](int64_t side, int64_t least) {
    return std::max(resizedFor(least), static_cast<int64_t>(std::llround(static_cast<double>(side) * scale)));
  };
  crop.resizedWidth = scaled(image.width, width);
  crop.resizedHeight = scaled(image.height, height);
  return crop;
}

} // namespace

Crop centreCrop(const Image &image, int64_t width, int64_t height) {
  Crop crop = resizedCrop(image, width, height);
  crop.x = (crop.resizedWidth - width) / 2;
  crop.y = (crop.resizedHeight - height) / 2;
  return crop;
}

Crop randomCrop(const Image &image, int64_t width, int64_t height, const std::array<uint32_t, 4> &words) {
  Crop crop = resizedCrop(image, width, height);
  crop.x = words[0] % (crop.resizedWidth - width + 1);
  crop.y = words[1] % (crop.resizedHeight - height + 1);
  crop.flipped = (words[2] & 1) != 0;
  return crop;
}

std::vector<float> resize(const Image &image, const Crop &crop) {
  std::vector<Taps> columns = makeTaps(image.width, crop.resizedWidth, crop.x, crop.width);
  std::vector<Taps> rows = makeTaps(image.height, crop.resizedHeight, crop.y, crop.height);
  int64_t firstRow = rows.front().first;
  int64_t rowCount = rows.back().first + static_cast<int64_t>(rows.back().weights.size()) - firstRow;

  std::vector<float> lines(rowCount * crop.width * kChannels); // resized in width only
  for (int64_t y = 0; y < rowCount; ++y)
    for (int64_t x = 0; x < crop.width; ++x) {
      const Taps &taps = columns[crop.flipped ? crop.width - 1 - x : x];
      const uint8_t *pixel = &image.pixels[((firstRow + y) * image.width + taps.first) * kChannels];
      float *sum = &lines[(y * crop.width + x) * kChannels];
      for (float weight : taps.weights)
        for (int64_t c = 0; c < kChannels; ++c)
          sum[c] += weight * static_cast<float>(*pixel++);
    }

  std::vector<float> result(kChannels * crop.height * crop.width);
  for (int64_t y = 0; y < crop.height; ++y) {
    const float *line = &lines[(rows[y].first - firstRow) * crop.width * kChannels];
    for (float weight : rows[y].weights)
      for (int64_t x = 0; x < crop.width; ++x)
        for (int64_t c = 0; c < kChannels; ++c)
          result[(c * crop.height + y) * crop.width + x] += weight * *line++;
  }
  return result;
}

} // namespace tapeout::rt
