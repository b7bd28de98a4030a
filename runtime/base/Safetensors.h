// Reader and writer of safetensors files (https://github.com/huggingface/safetensors): an 8-byte little-endian header
// length, a JSON header {name: {dtype, shape, data_offsets}}, the bytes of the tensors without holes or overlap.
//
// A file is hostile: everything is checked before use. Errors: BadData for a malformed file, those of AtomicFile.h.
#pragma once

#include "runtime/base/AtomicFile.h"
#include "runtime/base/ElementType.h"
#include "runtime/base/Status.h"

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tapeout {

/// The dtypes we read and write.
enum class TensorType : uint8_t { Bool, U8, I32, I64, F16, BF16, F32, F64 };

/// "BOOL", "U8", "I32"...
std::string_view name(TensorType type);
size_t elementSize(TensorType type);
/// U8 has no element type.
std::optional<ElementType> toElementType(TensorType type);
TensorType toTensorType(ElementType type);

struct TensorDeclaration {
  std::string name;
  TensorType type = TensorType::F32;
  std::vector<int64_t> shape; ///< empty: a scalar
};

struct TensorEntry : TensorDeclaration {
  uint64_t offset = 0; ///< from the first byte of data
  uint64_t bytes = 0;  ///< product of the shape times the element size
};

using SafetensorsMetadata = std::map<std::string, std::string>;

class Safetensors {
public:
  static Result<Safetensors> open(const std::string &path);
  /// The same over bytes that outlive the object, for example a section of a package. `name` is for the messages.
  static Result<Safetensors> parse(std::span<const uint8_t> bytes, const std::string &name);

  /// In the order of their bytes in the file.
  const std::vector<TensorEntry> &tensors() const { return tensors_; }
  /// Null when there is no such tensor.
  const TensorEntry *find(std::string_view name) const;
  /// The bytes of one of tensors(). They may be unaligned for their type: copy them.
  std::span<const uint8_t> data(const TensorEntry &entry) const;
  const SafetensorsMetadata &metadata() const { return metadata_; }

private:
  Safetensors() = default;

  std::optional<MappedFile> file_;
  std::span<const uint8_t> data_;
  std::vector<TensorEntry> tensors_;
  std::map<std::string, size_t, std::less<>> indexOfName_;
  SafetensorsMetadata metadata_;
};

/// Writes atomically and in one pass: declare all tensors, then give their bytes in that order, in pieces of any size.
/// The file has the declared order; declare wide types first, since some readers want every tensor aligned.
class SafetensorsWriter {
public:
  static Result<SafetensorsWriter> create(const std::string &path, const std::vector<TensorDeclaration> &tensors,
                                          const SafetensorsMetadata &metadata = {});

  Status write(const void *data, size_t size);
  /// Fails when bytes are missing.
  Status commit();

private:
  explicit SafetensorsWriter(AtomicFile file) : file_(std::move(file)) {}

  AtomicFile file_;
  uint64_t expectedBytes_ = 0; ///< of the whole file
};

} // namespace tapeout
