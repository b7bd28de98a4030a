// Small datasets on disk and shorthands for the tests of runtime/io.
#pragma once

#include "runtime/base/Status.h"
#include "runtime/io/DataLoader.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <span>
#include <string>
#include <unistd.h>
#include <vector>

namespace tapeout::rt::test {

/// A folder that is gone after the test.
class TemporaryFolder {
public:
  TemporaryFolder() {
    std::string pattern = (std::filesystem::temp_directory_path() / "tapeout-io-XXXXXX").string();
    path_ = ::mkdtemp(pattern.data());
  }
  ~TemporaryFolder() { std::filesystem::remove_all(path_); }
  std::string operator/(const std::string &name) const { return path_ + "/" + name; }
  const std::string &path() const { return path_; }

private:
  std::string path_;
};

inline std::string writeFile(const std::string &path, const std::string &content) {
  std::ofstream(path, std::ios::binary) << content;
  return path;
}

inline std::string readAll(const std::string &path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

template <typename T> std::string bytesOf(const std::vector<T> &values) {
  return {reinterpret_cast<const char *>(values.data()), values.size() * sizeof(T)};
}

inline std::string shard(const std::vector<uint16_t> &tokens) {
  std::vector<int32_t> header(256);
  header[0] = 20240520;
  header[1] = 1;
  header[2] = static_cast<int32_t>(tokens.size());
  return bytesOf(header) + bytesOf(tokens);
}

/// Version 1.0 with the header text as NumPy pads it.
inline std::string npy(std::string dictionary, const std::string &data) {
  while ((10 + dictionary.size() + 1) % 64 != 0)
    dictionary += ' ';
  dictionary += '\n';
  std::string length = {static_cast<char>(dictionary.size() & 255), static_cast<char>(dictionary.size() >> 8)};
  return std::string("\x93NUMPY\x01\x00", 8) + length + dictionary + data;
}

inline std::string npyHeader(const std::string &type, const std::string &shape) {
  return "{'descr': '" + type + "', 'fortran_order': False, 'shape': " + shape + ", }";
}

template <typename T> std::string npyFile(const std::string &type, const std::string &shape, std::vector<T> values) {
  return npy(npyHeader(type, shape), bytesOf(values));
}

template <typename T> std::vector<T> values(std::span<const uint8_t> bytes) {
  std::vector<T> result(bytes.size() / sizeof(T));
  std::memcpy(result.data(), bytes.data(), bytes.size());
  return result;
}

inline DataSpec tokenSpec(const std::string &path, int64_t batch, int64_t context, int64_t vocabulary = 256) {
  DataSpec spec;
  spec.dataPath = path;
  spec.batch = batch;
  spec.context = context;
  spec.vocabulary = vocabulary;
  auto bytes = static_cast<uint64_t>(batch * context) * 4;
  spec.inputs = {{"tokens", ElementType::I32, bytes}, {"labels", ElementType::I32, bytes}};
  spec.seed = 7;
  return spec;
}

/// Expects an error with this code whose message has all the parts.
inline void expectError(const Status &status, ExitCode code, const std::vector<std::string> &parts) {
  EXPECT_EQ(status.code(), code) << status.message();
  for (const std::string &part : parts)
    EXPECT_NE(status.message().find(part), std::string::npos) << "no '" << part << "' in: " << status.message();
}

} // namespace tapeout::rt::test
