// The vectors that AVX-512 kernels are written in. Included by files compiled for it only, hence the unnamed namespace.
#pragma once

#include <immintrin.h>

#include <cstdint>

namespace tapeout::rt {
namespace {

struct Avx512 {
  using Vector = __m512;
  using Mask = __mmask16;
  static constexpr int width = 16;
  static constexpr int rowsOfTwo = 14; // 14 * 2 sums, 2 of b, 1 of a: 31 of 32 registers
  static constexpr int rowsOfFour = 6; // 6 * 4 + 4 + 1

  static Vector zero() { return _mm512_setzero_ps(); }
  static Vector broadcast(const float *from) { return _mm512_set1_ps(*from); }
  static Vector load(const float *from) { return _mm512_loadu_ps(from); }
  static Vector load(const float *from, Mask mask) { return _mm512_maskz_loadu_ps(mask, from); }
  static void store(float *to, Vector value) { _mm512_storeu_ps(to, value); }
  static void store(float *to, Mask mask, Vector value) { _mm512_mask_storeu_ps(to, mask, value); }
  static Vector add(Vector x, Vector y) { return _mm512_add_ps(x, y); }
  static Vector multiplyAdd(Vector x, Vector y, Vector z) { return _mm512_fmadd_ps(x, y, z); }
  static Mask mask(int64_t lanes) { return static_cast<Mask>(lanes <= 0 ? 0 : (1u << lanes) - 1u); }
  static Mask maskOfBits(uint32_t bits) { return static_cast<Mask>(bits); }
  /// `base` with the lanes of the mask, which are 0 there, from memory.
  static Vector loadInto(Vector base, const float *from, Mask mask) {
    return _mm512_mask_loadu_ps(base, mask, from);
  }
};

} // namespace
} // namespace tapeout::rt
