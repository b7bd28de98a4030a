// JPEG and PNG files as pixels.
#pragma once

#include "runtime/base/Status.h"

#include <cstdint>
#include <string>
#include <vector>

namespace tapeout::rt {

/// Red, green, blue, a byte each; rows from the top, without gaps.
struct Image {
  int64_t width = 0, height = 0;
  std::vector<uint8_t> pixels;
};

/// Larger files, and images with more pixels, are refused before anything is allocated for them.
constexpr size_t kMaxImageBytes = size_t{256} << 20;
constexpr int64_t kMaxImagePixels = int64_t{1} << 26;

/// Whether the name ends as those of images do: .jpg, .jpeg or .png, in upper or lower case.
bool isImageName(const std::string &path);

/// Grey becomes red, green and blue; transparency is left out. Errors: MissingInput, and BadData for a damaged or too
/// large image and one of another format than its name says.
Result<Image> readImage(const std::string &path);

} // namespace tapeout::rt
