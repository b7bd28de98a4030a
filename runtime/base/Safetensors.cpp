#include "runtime/base/Safetensors.h"

#include "runtime/base/Json.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <tuple>

using namespace tapeout;
using nlohmann::json;

static_assert(std::endian::native == std::endian::little, "numbers are stored as they are in memory");

namespace {

constexpr uint64_t kLengthBytes = 8;
constexpr uint64_t kMaxHeaderBytes = 100'000'000; // the format's own limit
constexpr JsonLimits kHeaderLimits = {.bytes = kMaxHeaderBytes, .depth = 4, .values = 2'000'000};
constexpr std::string_view kMetadataKey = "__metadata__";

struct TensorTypeInfo {
  std::string_view name;
  uint8_t size;
  std::optional<ElementType> elementType;
};

/// Indexed by TensorType.
constexpr std::array<TensorTypeInfo, 8> kTensorTypes = {{{"BOOL", 1, ElementType::I1},
                                                         {"U8", 1, std::nullopt},
                                                         {"I32", 4, ElementType::I32},
                                                         {"I64", 8, ElementType::I64},
                                                         {"F16", 2, ElementType::F16},
                                                         {"BF16", 2, ElementType::BF16},
                                                         {"F32", 4, ElementType::F32},
                                                         {"F64", 8, ElementType::F64}}};

const TensorTypeInfo &infoOf(TensorType type) { return kTensorTypes[static_cast<size_t>(type)]; }

/// A name as messages show it: quoted, escaped and not too long.
std::string shown(std::string_view name) { return fmt::format("{:?}", name.substr(0, 200)); }

Status badFile(std::string_view file, std::string_view what) {
  return Status::error(ExitCode::BadData, fmt::format("'{}' is not a valid safetensors file: {}", file, what));
}

/// Nothing when a dimension is negative or the product does not fit in 63 bits.
std::optional<uint64_t> bytesOf(const TensorDeclaration &tensor) {
  int64_t bytes = static_cast<int64_t>(elementSize(tensor.type));
  for (int64_t dimension : tensor.shape)
    if (dimension < 0 || __builtin_mul_overflow(bytes, dimension, &bytes))
      return std::nullopt;
  return static_cast<uint64_t>(bytes);
}

std::optional<int64_t> toSize(const json &value) {
  if (!value.is_number_unsigned() || value.get<uint64_t>() > static_cast<uint64_t>(INT64_MAX))
    return std::nullopt;
  return value.get<int64_t>();
}

/// Reads one header entry into `tensor`. Returns what is wrong, empty when nothing is.
std::string readEntry(const json &value, TensorEntry &tensor) {
  if (!value.is_object() || value.size() != 3 || !value.contains("dtype") || !value.contains("shape") ||
      !value.contains("data_offsets"))
    return "its entry must have dtype, shape and data_offsets, and nothing else";
  const json &type = value["dtype"];
  if (!type.is_string())
    return "its dtype is not a string";
  const std::string &typeName = type.get_ref<const std::string &>();
  auto info = std::ranges::find(kTensorTypes, typeName, &TensorTypeInfo::name);
  if (info == kTensorTypes.end())
    return fmt::format("its dtype {} is not supported (BOOL, U8, I32, I64, F16, BF16, F32 and F64 are)",
                       shown(typeName));
  tensor.type = static_cast<TensorType>(info - kTensorTypes.begin());

  const json &shape = value["shape"], &offsets = value["data_offsets"];
  if (!shape.is_array() || !offsets.is_array() || offsets.size() != 2)
    return "shape must be an array and data_offsets an array of two numbers";
  for (const json &dimension : shape) {
    std::optional<int64_t> size = toSize(dimension);
    if (!size)
      return "a dimension of its shape is not an integer from 0 to 2^63 - 1";
    tensor.shape.push_back(*size);
  }
  std::optional<int64_t> begin = toSize(offsets[0]), end = toSize(offsets[1]);
  if (!begin || !end || *begin > *end)
    return "its data_offsets are not two integers in ascending order";
  std::optional<uint64_t> bytes = bytesOf(tensor);
  if (!bytes)
    return "its shape is too large";
  tensor.offset = static_cast<uint64_t>(*begin);
  tensor.bytes = static_cast<uint64_t>(*end - *begin);
  if (tensor.bytes != *bytes)
    return fmt::format("its shape needs {} bytes but its data_offsets give {}", *bytes, tensor.bytes);
  return {};
}

} // namespace

std::string_view tapeout::name(TensorType type) { return infoOf(type).name; }
size_t tapeout::elementSize(TensorType type) { return infoOf(type).size; }
std::optional<ElementType> tapeout::toElementType(TensorType type) { return infoOf(type).elementType; }

TensorType tapeout::toTensorType(ElementType type) {
  auto info = std::ranges::find(kTensorTypes, std::optional(type), &TensorTypeInfo::elementType);
  return static_cast<TensorType>(info - kTensorTypes.begin());
}

Result<Safetensors> Safetensors::open(const std::string &path) {
  Result<MappedFile> file = MappedFile::open(path);
  if (!file.isOk())
    return file.status();
  Result<Safetensors> tensors = parse(file->bytes(), path);
  if (tensors.isOk())
    tensors->file_ = std::move(*file);
  return tensors;
}

Result<Safetensors> Safetensors::parse(std::span<const uint8_t> bytes, const std::string &name) {
  uint64_t headerBytes = 0;
  if (bytes.size() < kLengthBytes)
    return badFile(name, fmt::format("it has only {} bytes", bytes.size()));
  std::memcpy(&headerBytes, bytes.data(), kLengthBytes);
  if (headerBytes > kMaxHeaderBytes || headerBytes > bytes.size() - kLengthBytes)
    return badFile(
        name, fmt::format("its header length {} exceeds the file or the limit of {}", headerBytes, kMaxHeaderBytes));
  std::string_view text(reinterpret_cast<const char *>(bytes.data()) + kLengthBytes, headerBytes);
  if (!text.starts_with('{'))
    return badFile(name, "its header does not start with '{'");
  Result<json> header = parseJson(text, name, kHeaderLimits);
  if (!header.isOk())
    return header.status();

  Safetensors result;
  result.data_ = bytes.subspan(kLengthBytes + headerBytes);
  for (const auto &[key, value] : header->items()) {
    if (key == kMetadataKey) {
      if (!value.is_object())
        return badFile(name, "its __metadata__ is not an object");
      for (const auto &[metaKey, metaValue] : value.items()) {
        if (!metaValue.is_string())
          return badFile(name, fmt::format("the metadata {} is not a string", shown(metaKey)));
        result.metadata_[metaKey] = metaValue.get<std::string>();
      }
      continue;
    }
    TensorEntry tensor;
    tensor.name = key;
    if (std::string problem = readEntry(value, tensor); !problem.empty())
      return badFile(name, fmt::format("tensor {}: {}", shown(key), problem));
    result.tensors_.push_back(std::move(tensor));
  }

  // In file order every tensor must begin where the one before it ends, and the last one ends the file.
  std::ranges::stable_sort(result.tensors_, {}, [](const TensorEntry &t) { return std::tuple(t.offset, t.bytes); });
  uint64_t end = 0;
  for (size_t i = 0; i < result.tensors_.size(); ++i) {
    const TensorEntry &tensor = result.tensors_[i];
    if (tensor.offset != end)
      return badFile(name, fmt::format("tensor {} begins at byte {} of the data where {} was expected",
                                       shown(tensor.name), tensor.offset, end));
    if (tensor.bytes > result.data_.size() - end)
      return badFile(name, fmt::format("tensor {} ends behind the end of the file; the file may be truncated",
                                       shown(tensor.name)));
    end += tensor.bytes;
    result.indexOfName_.emplace(tensor.name, i);
  }
  if (end != result.data_.size())
    return badFile(name, fmt::format("{} bytes behind the last tensor belong to none", result.data_.size() - end));
  return result;
}

const TensorEntry *Safetensors::find(std::string_view name) const {
  auto found = indexOfName_.find(name);
  return found == indexOfName_.end() ? nullptr : &tensors_[found->second];
}

std::span<const uint8_t> Safetensors::data(const TensorEntry &entry) const {
  return data_.subspan(entry.offset, entry.bytes);
}

Result<SafetensorsWriter> SafetensorsWriter::create(const std::string &path,
                                                    const std::vector<TensorDeclaration> &tensors,
                                                    const SafetensorsMetadata &metadata) {
  // Objects of nlohmann::json sort their keys; ordered_json keeps the declared order but searches linearly on
  // insertion, so the duplicates are found here and the members are appended.
  nlohmann::ordered_json::object_t header;
  if (!metadata.empty())
    header.emplace_back(kMetadataKey, metadata);
  std::map<std::string_view, size_t> seen;
  uint64_t end = 0;
  for (const TensorDeclaration &tensor : tensors) {
    std::optional<uint64_t> bytes = bytesOf(tensor);
    if (!bytes || *bytes > static_cast<uint64_t>(INT64_MAX) - end)
      return Status::error(ExitCode::WriteFailed, fmt::format("cannot write '{}': the shape of tensor {} is too large",
                                                              path, shown(tensor.name)));
    if (tensor.name == kMetadataKey || !seen.emplace(tensor.name, 0).second)
      return Status::error(ExitCode::WriteFailed,
                           fmt::format("cannot write '{}': the tensor name {} is taken", path, shown(tensor.name)));
    nlohmann::ordered_json entry;
    entry["dtype"] = tapeout::name(tensor.type);
    entry["shape"] = tensor.shape;
    entry["data_offsets"] = {end, end + *bytes};
    header.emplace_back(tensor.name, std::move(entry));
    end += *bytes;
  }
  std::string text;
  try {
    text = nlohmann::ordered_json(std::move(header)).dump();
  } catch (const json::exception &) { // thrown for text that is not UTF-8 only
    return Status::error(ExitCode::WriteFailed,
                         fmt::format("cannot write '{}': a tensor name or metadata is not valid UTF-8", path));
  }
  text.append((8 - text.size() % 8) % 8, ' '); // the data begins at a multiple of 8
  uint64_t headerBytes = text.size();
  if (headerBytes > kMaxHeaderBytes)
    return Status::error(ExitCode::WriteFailed,
                         fmt::format("cannot write '{}': its header would have {} bytes, more than the {} that the "
                                     "safetensors format allows",
                                     path, headerBytes, kMaxHeaderBytes));

  Result<AtomicFile> file = AtomicFile::create(path);
  if (!file.isOk())
    return file.status();
  SafetensorsWriter writer(std::move(*file));
  writer.expectedBytes_ = kLengthBytes + headerBytes + end;
  TAPEOUT_RETURN_IF_ERROR(writer.file_.write(&headerBytes, kLengthBytes));
  TAPEOUT_RETURN_IF_ERROR(writer.file_.write(text.data(), text.size()));
  return writer;
}

Status SafetensorsWriter::write(const void *data, size_t size) {
  if (size > expectedBytes_ - file_.bytesWritten())
    return Status::error(ExitCode::WriteFailed,
                         fmt::format("cannot write '{}': more bytes than the declared tensors have", file_.path()));
  return file_.write(data, size);
}

Status SafetensorsWriter::commit() {
  if (file_.bytesWritten() != expectedBytes_)
    return Status::error(ExitCode::WriteFailed, fmt::format("cannot write '{}': {} bytes of the declared tensors are "
                                                            "missing",
                                                            file_.path(), expectedBytes_ - file_.bytesWritten()));
  return file_.commit();
}
