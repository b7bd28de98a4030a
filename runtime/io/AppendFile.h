// A file that grows by whole records: each one is handed to the kernel in one piece, so a killed process leaves no part
// of a record behind.
#pragma once

#include "runtime/base/Status.h"

#include <cstdint>
#include <string>
#include <string_view>

namespace tapeout::rt {

class AppendFile {
public:
  /// Opens or makes the file and cuts it to `keepBytes` (no more than its size). Error: CannotCreate (73).
  static Result<AppendFile> open(const std::string &path, uint64_t keepBytes);

  AppendFile(AppendFile &&other) noexcept;
  AppendFile &operator=(AppendFile &&other) noexcept;
  ~AppendFile();

  /// Error: WriteFailed (74); a record that could be written only in part is cut off again.
  Status append(std::string_view record);

private:
  AppendFile() = default;

  std::string path_;
  int descriptor_ = -1;
  uint64_t size_ = 0;
};

} // namespace tapeout::rt
