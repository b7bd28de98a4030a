// Philox4x32-10, the counter-based generator of Salmon, Moraes, Dror and Shaw, "Parallel random numbers: as easy as
// 1, 2, 3" (SC 2011), and the numbers made from its words.
//
// There is no state: a number is a function of (key, counter), so threads, ranks and restarts cannot change it.
// Parameter initialisers are evaluated in double and rounded once to the type of the parameter.
#pragma once

#include "runtime/base/BFloat16.h"
#include "runtime/base/ElementType.h"

#include <array>
#include <cmath>
#include <cstdint>
#include <numbers>

namespace tapeout {

using PhiloxCounter = std::array<uint32_t, 4>;
using PhiloxKey = std::array<uint32_t, 2>;

/// The key of a seed: (low word, high word).
constexpr PhiloxKey philoxKey(uint64_t seed) {
  return {static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)};
}

/// Four random words for one counter and key.
constexpr std::array<uint32_t, 4> philox4x32(PhiloxCounter counter, PhiloxKey key) {
  for (int round = 0; round < 10; ++round) {
    uint64_t product0 = uint64_t{0xD2511F53u} * counter[0];
    uint64_t product1 = uint64_t{0xCD9E8D57u} * counter[2];
    counter = {static_cast<uint32_t>(product1 >> 32) ^ counter[1] ^ key[0], static_cast<uint32_t>(product1),
               static_cast<uint32_t>(product0 >> 32) ^ counter[3] ^ key[1], static_cast<uint32_t>(product0)};
    key[0] += 0x9E3779B9u;
    key[1] += 0xBB67AE85u;
  }
  return counter;
}

/// Uniform in [0, 1): the high 24 bits of the word, times 2^-24 (exact).
constexpr float uniformFloat(uint32_t word) { return static_cast<float>(word >> 8) * 0x1p-24f; }

/// Uniform in [0, 1): the high 53 bits of (high, low), times 2^-53 (exact).
constexpr double uniformDouble(uint32_t low, uint32_t high) {
  return static_cast<double>(((uint64_t{high} << 32) | low) >> 11) * 0x1p-53;
}

/// Two independent standard normals by Box-Muller: with u = uniformDouble(words 0, 1), v = uniformDouble(words 2, 3)
/// and r = sqrt(-2 ln(1 - u)), they are r cos(2 pi v) and r sin(2 pi v).
inline std::array<double, 2> normalPair(const std::array<uint32_t, 4> &words) {
  double radius = std::sqrt(-2.0 * std::log(1.0 - uniformDouble(words[0], words[1])));
  double angle = 2.0 * std::numbers::pi * uniformDouble(words[2], words[3]);
  return {radius * std::cos(angle), radius * std::sin(angle)};
}

/// An endless array of random numbers: element i depends on (seed, stream, i) only. Elements 2j and 2j + 1 come from
/// the block with counter (j low, j high, stream low, stream high).
struct RandomStream {
  uint64_t seed = 0;
  uint64_t stream = 0;

  std::array<uint32_t, 4> block(uint64_t j) const {
    return philox4x32({static_cast<uint32_t>(j), static_cast<uint32_t>(j >> 32), static_cast<uint32_t>(stream),
                       static_cast<uint32_t>(stream >> 32)},
                      philoxKey(seed));
  }

  /// Uniform in [0, 1): words (0, 1) of its block for an even element, words (2, 3) for an odd one.
  std::array<double, 2> uniformPair(uint64_t j) const {
    std::array<uint32_t, 4> words = block(j);
    return {uniformDouble(words[0], words[1]), uniformDouble(words[2], words[3])};
  }
  double uniform(uint64_t i) const { return uniformPair(i / 2)[i % 2]; }

  /// Standard normal: the cosine of normalPair for an even element, the sine for an odd one.
  double normal(uint64_t i) const { return normalPair(block(i / 2))[i % 2]; }

  /// Writes elements [first, first + count) to destination[0 .. count): low + (high - low) * uniform. False, and
  /// nothing written, when `type` is no floating-point type. Rounding to the type may give `high` itself.
  [[nodiscard]] bool fillUniform(ElementType type, void *destination, uint64_t first, uint64_t count, double low,
                                 double high) const {
    return fill(type, destination, first, count, low, high - low, [this](uint64_t j) { return uniformPair(j); });
  }

  /// The same with mean + deviation * normal.
  [[nodiscard]] bool fillNormal(ElementType type, void *destination, uint64_t first, uint64_t count, double mean,
                                double deviation) const {
    return fill(type, destination, first, count, mean, deviation, [this](uint64_t j) { return normalPair(block(j)); });
  }

private:
  template <typename Pair>
  static bool fill(ElementType type, void *destination, uint64_t first, uint64_t count, double offset, double scale,
                   Pair pair) {
    auto fillWith = [&](auto *out, auto round) {
      std::array<double, 2> values = {};
      for (uint64_t k = 0; k < count; ++k) {
        uint64_t i = first + k;
        if (k == 0 || i % 2 == 0)
          values = pair(i / 2);
        out[k] = round(offset + scale * values[i % 2]);
      }
      return true;
    };
    switch (type) {
    case ElementType::F32:
      return fillWith(static_cast<float *>(destination), [](double x) { return static_cast<float>(x); });
    case ElementType::F64:
      return fillWith(static_cast<double *>(destination), [](double x) { return x; });
    case ElementType::BF16:
      return fillWith(static_cast<uint16_t *>(destination), doubleToBfloat16);
    case ElementType::F16:
      return fillWith(static_cast<uint16_t *>(destination), doubleToHalf);
    default:
      return false;
    }
  }
};

} // namespace tapeout
