#include "runtime/io/Image.h"

#include "runtime/base/AtomicFile.h"

#include <fmt/format.h>
#include <png.h>
#include <turbojpeg.h>

#include <algorithm>
#include <cctype>
#include <cstring>
#include <memory>

namespace tapeout::rt {

namespace {

enum class Format { Jpeg, Png, Other };

Status badImage(const std::string &path, const std::string &what) {
  return Status::error(ExitCode::BadData, fmt::format("{}: {}", path, what));
}

Status damaged(const std::string &path, const char *format, const char *reason) {
  return badImage(path, fmt::format("the {} image is damaged ({}); replace or remove the file", format, reason));
}

Status checkSize(const std::string &path, int64_t width, int64_t height) {
  if (width <= kMaxImagePixels / height) // both are positive
    return Status::ok();
  return badImage(path, fmt::format("the image has {} x {} pixels, but at most {} are read; make it smaller or remove the file",
                                    width, height, kMaxImagePixels));
}

Format formatOf(const std::string &bytes) {
  if (bytes.starts_with("\xff\xd8\xff"))
    return Format::Jpeg;
  return bytes.starts_with("\x89PNG\r\n\x1a\n") ? Format::Png : Format::Other;
}

Format formatOfName(const std::string &path) {
  size_t dot = path.rfind('.');
  std::string ending = dot == std::string::npos ? "" : path.substr(dot);
  std::transform(ending.begin(), ending.end(), ending.begin(), [](unsigned char c) { return std::tolower(c); });
  if (ending == ".jpg" || ending == ".jpeg")
    return Format::Jpeg;
  return ending == ".png" ? Format::Png : Format::Other;
}

Result<Image> decodeJpeg(const std::string &path, const std::string &bytes) {
  std::unique_ptr<void, int (*)(void *)> decoder(tjInitDecompress(), tjDestroy);
  if (!decoder)
    return Status::error(ExitCode::Unavailable, fmt::format("{}: no memory to read the image", path));
  const auto *data = reinterpret_cast<const unsigned char *>(bytes.data());
  int width = 0, height = 0, sampling = 0, colours = 0;
  bool hasHeader = tjDecompressHeader3(decoder.get(), data, bytes.size(), &width, &height, &sampling, &colours) == 0;
  if (!hasHeader || width <= 0 || height <= 0)
    return damaged(path, "JPEG", tjGetErrorStr2(decoder.get()));
  TAPEOUT_RETURN_IF_ERROR(checkSize(path, width, height));
  if (colours == TJCS_CMYK || colours == TJCS_YCCK)
    return badImage(path, "the JPEG image has the colours of a printer (CMYK); convert it to RGB or remove the file");
  Image image{width, height, std::vector<uint8_t>(3 * static_cast<size_t>(width) * static_cast<size_t>(height))};
  // The flags make the result independent of the processor and the time bounded; a warning is a damaged file.
  constexpr int kFlags = TJFLAG_ACCURATEDCT | TJFLAG_STOPONWARNING | TJFLAG_LIMITSCANS;
  if (tjDecompress2(decoder.get(), data, bytes.size(), image.pixels.data(), width, 0, height, TJPF_RGB, kFlags) != 0)
    return damaged(path, "JPEG", tjGetErrorStr2(decoder.get()));
  return image;
}

Result<Image> decodePng(const std::string &path, const std::string &bytes) {
  png_image png = {};
  png.version = PNG_IMAGE_VERSION;
  std::unique_ptr<png_image, void (*)(png_image *)> cleanUp(&png, png_image_free);
  if (!png_image_begin_read_from_memory(&png, bytes.data(), bytes.size()))
    return damaged(path, "PNG", png.message);
  TAPEOUT_RETURN_IF_ERROR(checkSize(path, png.width, png.height));
  png.format = PNG_FORMAT_RGBA; // with RGB alone, transparent pixels would be mixed with a background
  std::vector<uint8_t> pixels(PNG_IMAGE_SIZE(png));
  if (!png_image_finish_read(&png, nullptr, pixels.data(), 0, nullptr) || PNG_IMAGE_FAILED(png))
    return damaged(path, "PNG", png.message);
  Image image{png.width, png.height, std::vector<uint8_t>(pixels.size() / 4 * 3)};
  for (size_t i = 0; i < pixels.size() / 4; ++i)
    std::memcpy(&image.pixels[3 * i], &pixels[4 * i], 3);
  return image;
}

} // namespace

bool isImageName(const std::string &path) { return formatOfName(path) != Format::Other; }

Result<Image> readImage(const std::string &path) {
  Result<std::string> bytes = readFile(path, kMaxImageBytes);
  if (!bytes.isOk())
    return bytes.status();
  Format format = formatOf(*bytes);
  if (format == Format::Other)
    return badImage(path, "the file is neither a JPEG nor a PNG image, although its name says so; replace or remove it");
  if (format != formatOfName(path))
    return badImage(path, fmt::format("the file is a {} image, but its name says otherwise; rename it",
                                      format == Format::Jpeg ? "JPEG" : "PNG"));
  return format == Format::Jpeg ? decodeJpeg(path, *bytes) : decodePng(path, *bytes);
}

} // namespace tapeout::rt
