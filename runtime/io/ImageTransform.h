// From an image of any size to a model's input: resize, crop, flip, normalise.
#pragma once

#include "runtime/io/Image.h"

#include <array>
#include <cstdint>
#include <vector>

namespace tapeout::rt {

/// A crop of `width` x `height` pixels at (x, y) of the image resized to `resizedWidth` x `resizedHeight`.
struct Crop {
  int64_t resizedWidth = 0, resizedHeight = 0;
  int64_t x = 0, y = 0, width = 0, height = 0;
  bool flipped = false; ///< left to right
};

/// The size to which an image is resized: its sides keep their proportion, and both are 8/7 of the model's or more, one
/// of them exactly (256 for 224).
Crop centreCrop(const Image &image, int64_t width, int64_t height);
/// The same size, cut anywhere and flipped or not, by random words.
Crop randomCrop(const Image &image, int64_t width, int64_t height, const std::array<uint32_t, 4> &words);

/// The crop as floats in [0, 255], [3, height, width]. Bilinear; where the image shrinks, a triangle as wide as a pixel of
/// the result, which is what PIL and torch's `antialias` do. Computes only what the crop shows.
std::vector<float> resize(const Image &image, const Crop &crop);

} // namespace tapeout::rt
