// Reads NumPy's .npy files, format versions 1.0 and 2.0 (numpy.lib.format), memory-mapped.
//
// Accepted: little endian float32, float64, int32, int64, uint8; C order; at most 8 dimensions. Everything else is
// refused with BadData (65) and the NumPy call that converts it.
#pragma once

#include "runtime/base/AtomicFile.h"
#include "runtime/base/Status.h"

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tapeout::rt {

enum class NpyType : uint8_t { F32, F64, I32, I64, U8 };

size_t sizeOf(NpyType type);
std::string_view nameOf(NpyType type); ///< NumPy's name: "float32"

/// The header of a file: what the bytes behind it mean.
struct NpyHeader {
  NpyType type = NpyType::F32;
  std::vector<int64_t> shape;
  uint64_t elements = 1;   ///< product of `shape`
  uint64_t dataOffset = 0; ///< from the start of the file
};

/// Parses the header in the first bytes of `file`, whose data part must be as long as the header says. `path` is for
/// messages.
Result<NpyHeader> parseNpyHeader(std::span<const uint8_t> file, const std::string &path);

struct NpyFile {
  std::string path;
  MappedFile file;
  NpyHeader header;

  static Result<NpyFile> open(const std::string &path);
  const uint8_t *data() const { return file.bytes().data() + header.dataOffset; } ///< not aligned
};

} // namespace tapeout::rt
