// Runs of kernels on the emulator, written down to be repeated on a GPU: the same bits are expected.
//
// A file is a list of strings, each as its length in 64 bits and its bytes: "module", PTX, and for each run of its kernels
// "run", symbol, blocks, threads, shared bytes, "table" or "", the number of arguments, and of each what was in it before and after.
#pragma once

#include <cstdint>
#include <fstream>
#include <optional>
#include <string>

namespace tapeout::codegen {

class RecordWriter {
public:
  explicit RecordWriter(const std::string &path) : file_(path, std::ios::binary | std::ios::app) {}
  RecordWriter &operator<<(const std::string &text) {
    uint64_t size = text.size();
    file_.write(reinterpret_cast<const char *>(&size), sizeof size);
    file_.write(text.data(), size);
    return *this;
  }
  RecordWriter &operator<<(uint64_t number) { return *this << std::to_string(number); }

private:
  std::ofstream file_;
};

class RecordReader {
public:
  explicit RecordReader(const std::string &path) : file_(path, std::ios::binary) {}
  /// None at the end of the file.
  std::optional<std::string> text() {
    uint64_t size = 0;
    if (!file_.read(reinterpret_cast<char *>(&size), sizeof size) || size > uint64_t(1) << 32)
      return std::nullopt;
    std::string bytes(size, '\0');
    return file_.read(bytes.data(), size) ? std::optional(bytes) : std::nullopt;
  }
  uint64_t number() { return std::stoull(text().value_or("0")); }

private:
  std::ifstream file_;
};

} // namespace tapeout::codegen
