// SHA-256 (FIPS 180-4), for the hashes of plans, package sections and checkpoints.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace tapeout {

using Sha256Digest = std::array<uint8_t, 32>;

class Sha256 {
public:
  void update(const void *data, size_t size);
  void update(std::span<const uint8_t> data) { update(data.data(), data.size()); }

  /// The hash of everything so far. Call it once, last.
  Sha256Digest finish();

private:
  void compress(const uint8_t *block);

  std::array<uint32_t, 8> state_ = {0x6a09e667u, 0xbb67ae85u, 0x3c6ef372u, 0xa54ff53au,
                                    0x510e527fu, 0x9b05688cu, 0x1f83d9abu, 0x5be0cd19u};
  std::array<uint8_t, 64> buffer_ = {};
  uint64_t length_ = 0; ///< bytes so far; length_ % 64 of them wait in buffer_
};

Sha256Digest sha256(std::span<const uint8_t> data);

/// 64 lower-case hexadecimal digits.
std::string toHex(const Sha256Digest &digest);

} // namespace tapeout
