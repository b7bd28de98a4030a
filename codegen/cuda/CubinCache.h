// Assembled kernels, kept between compiles: files named by the hash of what they were made from.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace tapeout::codegen {

class CubinCache {
public:
  /// Of this folder, which is made when needed; empty: nothing is kept.
  explicit CubinCache(std::string folder, uint64_t maxBytes = uint64_t(256) << 20)
      : folder_(std::move(folder)), maxBytes_(maxBytes) {}

  /// Of this PTX, architecture and assembler.
  static std::string keyOf(const std::string &ptx, const std::string &architecture, const std::string &assembler);

  /// None where there is no entry, or one whose bytes are not those that were written.
  std::optional<std::string> find(const std::string &key) const;
  /// Written whole or not at all. A cache that cannot be written is no error.
  void add(const std::string &key, const std::string &cubin) const;
  /// Removes the oldest entries until the others fit.
  void trim() const;

private:
  std::string pathOf(const std::string &key) const { return folder_ + "/" + key + ".cubin"; }

  std::string folder_;
  uint64_t maxBytes_;
};

} // namespace tapeout::codegen
