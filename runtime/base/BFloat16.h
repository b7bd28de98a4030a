// bfloat16 and IEEE half precision as their 16 bits, converted from and to float and double.
//
// Rounding is to nearest, ties to even; overflow gives infinity, subnormals are kept. A NaN stays a (quiet) NaN with
// its sign and its leading payload bits.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

namespace tapeout {

inline float bfloat16ToFloat(uint16_t bits) { return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16); }

inline uint16_t floatToBfloat16(float value) {
  uint32_t bits = std::bit_cast<uint32_t>(value);
  if (std::isnan(value))
    return static_cast<uint16_t>((bits >> 16) | 0x0040u);
  return static_cast<uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}

inline float halfToFloat(uint16_t bits) {
  uint32_t sign = (bits & 0x8000u) << 16;
  uint32_t magnitude = bits & 0x7fffu;
  if (magnitude >= 0x7c00u) // infinity and NaN
    return std::bit_cast<float>(sign | 0x7f800000u | ((magnitude & 0x3ffu) << 13));
  if (magnitude < 0x0400u) { // zero and subnormals: units of 2^-24
    float value = static_cast<float>(magnitude) * 0x1p-24f;
    return sign ? -value : value;
  }
  return std::bit_cast<float>(sign | ((magnitude << 13) + ((127u - 15u) << 23)));
}

inline uint16_t floatToHalf(float value) {
  uint32_t bits = std::bit_cast<uint32_t>(value);
  uint32_t sign = (bits >> 16) & 0x8000u;
  uint32_t magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u)
    return static_cast<uint16_t>(sign | 0x7e00u | ((magnitude >> 13) & 0x3ffu));
  if (magnitude >= 0x47800000u) // 2^16 and more; smaller values that round up to it overflow by the carry below
    return static_cast<uint16_t>(sign | 0x7c00u);
  if (magnitude < 0x38800000u) { // below 2^-14: adding 0.5 leaves a multiple of 2^-24, rounded by the addition itself
    float shifted = std::bit_cast<float>(magnitude) + 0.5f;
    return static_cast<uint16_t>(sign | (std::bit_cast<uint32_t>(shifted) - 0x3f000000u));
  }
  uint32_t rebiased = magnitude - ((127u - 15u) << 23);
  return static_cast<uint16_t>(sign | ((rebiased + 0x0fffu + ((rebiased >> 13) & 1u)) >> 13));
}

/// A float that a second rounding to 16 bits cannot spoil ("round to odd"): exact, or with its last bit set.
inline float roundToOdd(double value) {
  float nearest = static_cast<float>(value);
  uint32_t bits = std::bit_cast<uint32_t>(nearest);
  if (static_cast<double>(nearest) == value || std::isnan(value) || (bits & 1u))
    return nearest;
  bool below = std::fabs(static_cast<double>(nearest)) < std::fabs(value);
  return std::bit_cast<float>(below ? bits + 1 : bits - 1);
}

/// Rounded once, not through float.
inline uint16_t doubleToBfloat16(double value) { return floatToBfloat16(roundToOdd(value)); }
inline uint16_t doubleToHalf(double value) { return floatToHalf(roundToOdd(value)); }

} // namespace tapeout
