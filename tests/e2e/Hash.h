// The integer hash that data of the tests comes from; tests/golden/reference.py computes the same.
#pragma once

#include <cstdint>

namespace tapeout::e2e {

/// The finalizer of MurmurHash3 (Appleby 2011).
constexpr uint32_t mixBits(uint32_t x) {
  x = (x ^ (x >> 16)) * 0x85EBCA6Bu;
  x = (x ^ (x >> 13)) * 0xC2B2AE35u;
  return x ^ (x >> 16);
}

/// The i-th word of a stream.
constexpr uint32_t hashWord(uint32_t stream, uint32_t i) { return mixBits(i + mixBits(stream)); }

/// In [0, 1), a multiple of 2^-24: exact in float32.
constexpr double hashFraction(uint32_t word) { return (word >> 8) * 0x1p-24; }

} // namespace tapeout::e2e
