#include "runtime/base/Sha256.h"

#include <algorithm>
#include <bit>
#include <cstring>

using namespace tapeout;

namespace {

constexpr std::array<uint32_t, 64> kRoundConstants = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

uint32_t loadBigEndian(const uint8_t *bytes) {
  return uint32_t{bytes[0]} << 24 | uint32_t{bytes[1]} << 16 | uint32_t{bytes[2]} << 8 | uint32_t{bytes[3]};
}

void storeBigEndian(uint32_t value, uint8_t *bytes) {
  for (int i = 0; i < 4; ++i)
    bytes[i] = static_cast<uint8_t>(value >> (24 - 8 * i));
}

} // namespace

// FIPS 180-4, section 6.2.2, with its names of the working variables.
void Sha256::compress(const uint8_t *block) {
  std::array<uint32_t, 64> w;
  for (size_t t = 0; t < 16; ++t)
    w[t] = loadBigEndian(block + 4 * t);
  for (size_t t = 16; t < 64; ++t) {
    uint32_t sigma0 = std::rotr(w[t - 15], 7) ^ std::rotr(w[t - 15], 18) ^ (w[t - 15] >> 3);
    uint32_t sigma1 = std::rotr(w[t - 2], 17) ^ std::rotr(w[t - 2], 19) ^ (w[t - 2] >> 10);
    w[t] = sigma1 + w[t - 7] + sigma0 + w[t - 16];
  }
  auto [a, b, c, d, e, f, g, h] = state_;
  for (size_t t = 0; t < 64; ++t) {
    uint32_t sum1 = std::rotr(e, 6) ^ std::rotr(e, 11) ^ std::rotr(e, 25);
    uint32_t choice = (e & f) ^ (~e & g);
    uint32_t temporary1 = h + sum1 + choice + kRoundConstants[t] + w[t];
    uint32_t sum0 = std::rotr(a, 2) ^ std::rotr(a, 13) ^ std::rotr(a, 22);
    uint32_t majority = (a & b) ^ (a & c) ^ (b & c);
    h = g;
    g = f;
    f = e;
    e = d + temporary1;
    d = c;
    c = b;
    b = a;
    a = temporary1 + sum0 + majority;
  }
  const std::array<uint32_t, 8> working = {a, b, c, d, e, f, g, h};
  for (size_t i = 0; i < 8; ++i)
    state_[i] += working[i];
}

void Sha256::update(const void *data, size_t size) {
  const uint8_t *next = static_cast<const uint8_t *>(data);
  while (size > 0) {
    size_t waiting = length_ % 64;
    size_t piece = std::min(size, 64 - waiting);
    if (piece == 64) {
      compress(next);
    } else {
      std::memcpy(buffer_.data() + waiting, next, piece);
      if (waiting + piece == 64)
        compress(buffer_.data());
    }
    length_ += piece;
    next += piece;
    size -= piece;
  }
}

Sha256Digest Sha256::finish() {
  uint64_t bits = length_ * 8;
  std::array<uint8_t, 72> padding = {0x80};
  size_t zeros = (119 - length_ % 64) % 64; // so that 1 + zeros + 8 bytes end a block
  storeBigEndian(static_cast<uint32_t>(bits >> 32), padding.data() + 1 + zeros);
  storeBigEndian(static_cast<uint32_t>(bits), padding.data() + 5 + zeros);
  update(padding.data(), 9 + zeros);
  Sha256Digest digest;
  for (size_t i = 0; i < 8; ++i)
    storeBigEndian(state_[i], digest.data() + 4 * i);
  return digest;
}

Sha256Digest tapeout::sha256(std::span<const uint8_t> data) {
  Sha256 hash;
  hash.update(data);
  return hash.finish();
}

std::string tapeout::toHex(const Sha256Digest &digest) {
  constexpr char digits[] = "0123456789abcdef";
  std::string text;
  for (uint8_t byte : digest)
    text += {digits[byte >> 4], digits[byte & 15]};
  return text;
}
