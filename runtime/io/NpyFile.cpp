#include "runtime/io/NpyFile.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <optional>

namespace tapeout::rt {

constexpr size_t kMaxHeaderBytes = 64 * 1024;
constexpr size_t kMaxDimensions = 8;
constexpr int64_t kMaxElements = int64_t{1} << 48;

struct TypeEntry {
  NpyType type;
  std::string_view descriptor; ///< as in the header
  std::string_view name;
  size_t size;
};
constexpr std::array<TypeEntry, 5> kTypes = {{{NpyType::F32, "<f4", "float32", 4},
                                              {NpyType::F64, "<f8", "float64", 8},
                                              {NpyType::I32, "<i4", "int32", 4},
                                              {NpyType::I64, "<i8", "int64", 8},
                                              {NpyType::U8, "|u1", "uint8", 1}}};

size_t sizeOf(NpyType type) { return kTypes[static_cast<size_t>(type)].size; }
std::string_view nameOf(NpyType type) { return kTypes[static_cast<size_t>(type)].name; }

namespace {

/// The header's text is a Python dictionary: {'descr': '<f4', 'fortran_order': False, 'shape': (60000, 28, 28), }.
class HeaderParser {
public:
  explicit HeaderParser(std::string_view text) : text_(text) {}

  /// False when the text is anything else than the three keys, in any order, each once.
  bool parse() {
    if (!accept("{"))
      return false;
    while (!accept("}")) {
      std::string_view key;
      if (!parseString(key) || !accept(":") || !parseValue(key))
        return false;
      if (!accept(",") && !peek('}'))
        return false;
    }
    skipSpace();
    return position_ == text_.size() && descriptor && fortranOrder && shape;
  }

  std::optional<std::string_view> descriptor;
  std::optional<bool> fortranOrder;
  std::optional<std::vector<int64_t>> shape;

private:
  bool parseValue(std::string_view key) {
    if (key == "descr" && !descriptor)
      return parseString(descriptor.emplace());
    if (key == "fortran_order" && !fortranOrder) {
      fortranOrder = accept("True");
      return *fortranOrder || accept("False");
    }
    return key == "shape" && !shape && parseShape(shape.emplace());
  }

  bool parseShape(std::vector<int64_t> &dimensions) {
    if (!accept("("))
      return false;
    while (!accept(")")) {
      int64_t extent = 0;
      if (dimensions.size() == kMaxDimensions || !parseNumber(extent))
        return false;
      dimensions.push_back(extent);
      if (!accept(",") && !peek(')'))
        return false;
    }
    return true;
  }

  bool parseNumber(int64_t &number) {
    skipSpace();
    size_t start = position_;
    while (position_ < text_.size() && std::isdigit(static_cast<unsigned char>(text_[position_]))) {
      number = number * 10 + (text_[position_++] - '0');
      if (number > kMaxElements)
        return false;
    }
    return position_ > start;
  }

  bool parseString(std::string_view &string) {
    if (!accept("'"))
      return false;
    size_t end = text_.find('\'', position_);
    if (end == std::string_view::npos)
      return false;
    string = text_.substr(position_, end - position_);
    position_ = end + 1;
    return true;
  }

  bool accept(std::string_view token) {
    skipSpace();
    bool found = text_.substr(position_).starts_with(token);
    position_ += found ? token.size() : 0;
    return found;
  }

  bool peek(char character) {
    skipSpace();
    return position_ < text_.size() && text_[position_] == character;
  }

  void skipSpace() {
    while (position_ < text_.size() && (text_[position_] == ' ' || text_[position_] == '\n'))
      ++position_;
  }

  std::string_view text_;
  size_t position_ = 0;
};

Status badFile(const std::string &path, std::string_view what) {
  return Status::error(ExitCode::BadData, fmt::format("{}: {}", path, what));
}

} // namespace

Result<NpyHeader> parseNpyHeader(std::span<const uint8_t> file, const std::string &path) {
  constexpr std::string_view kMagic = "\x93NUMPY";
  if (file.size() < 10 || !std::equal(kMagic.begin(), kMagic.end(), file.begin(),
                                      [](char a, uint8_t b) { return static_cast<uint8_t>(a) == b; }))
    return badFile(path,
                   "this is not a .npy file (it does not begin with NumPy's magic bytes); write it with numpy.save");
  uint8_t version = file[6];
  if ((version != 1 && version != 2) || file[7] != 0)
    return badFile(path, fmt::format("its .npy format version is {}.{}, but only 1.0 and 2.0 are read; write it with "
                                     "numpy.save",
                                     version, file[7]));
  size_t textOffset = version == 1 ? 10 : 12;
  if (file.size() < textOffset)
    return badFile(path, "the file ends inside its .npy header; copy or write it again");
  size_t textBytes = file[8] | file[9] << 8;
  if (version == 2)
    textBytes |= size_t{file[10]} << 16 | size_t{file[11]} << 24;
  if (textBytes > kMaxHeaderBytes)
    return badFile(path,
                   fmt::format("its .npy header claims {} bytes, more than the {} that any array of numbers needs; "
                               "write it again with numpy.save",
                               textBytes, kMaxHeaderBytes));
  if (textBytes > file.size() - textOffset)
    return badFile(path, "the file ends inside its .npy header; copy or write it again");

  HeaderParser parser({reinterpret_cast<const char *>(file.data()) + textOffset, textBytes});
  if (!parser.parse())
    return badFile(path, fmt::format("its .npy header is malformed or has more than {} dimensions; write it again with "
                                     "numpy.save",
                                     kMaxDimensions));
  auto type = std::find_if(kTypes.begin(), kTypes.end(),
                           [&](const TypeEntry &entry) { return entry.descriptor == *parser.descriptor; });
  if (type == kTypes.end())
    return badFile(path,
                   fmt::format("its element type is '{}', but only little-endian float32, float64, int32, int64 and "
                               "uint8 are read; convert it with array.astype",
                               parser.descriptor->substr(0, 32)));
  if (*parser.fortranOrder)
    return badFile(path, "it is stored in Fortran order, but only C order is read; convert it with "
                         "numpy.ascontiguousarray");

  NpyHeader header{.type = type->type, .shape = *parser.shape, .dataOffset = textOffset + textBytes};
  for (int64_t extent : header.shape) {
    if (extent != 0 && header.elements > static_cast<uint64_t>(kMaxElements / extent))
      return badFile(path, "its .npy header claims more elements than any file holds; write it again with numpy.save");
    header.elements *= static_cast<uint64_t>(extent);
  }
  uint64_t dataBytes = file.size() - header.dataOffset;
  if (dataBytes != header.elements * type->size)
    return badFile(path,
                   fmt::format("the file is {}: its header promises {} bytes of data, but {} follow; copy or write "
                               "it again",
                               dataBytes < header.elements * type->size ? "truncated" : "too long",
                               header.elements * type->size, dataBytes));
  return header;
}

Result<NpyFile> NpyFile::open(const std::string &path) {
  Result<MappedFile> file = MappedFile::open(path);
  if (!file.isOk())
    return file.status();
  Result<NpyHeader> header = parseNpyHeader(file->bytes(), path);
  if (!header.isOk())
    return header.status();
  return NpyFile{path, std::move(*file), std::move(*header)};
}

} // namespace tapeout::rt
