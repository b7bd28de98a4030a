// The vectors that AVX2 kernels are written in. Included by files compiled for it only, hence the unnamed namespace.
#pragma once

#include <immintrin.h>

#include <cstdint>

namespace tapeout::rt {
namespace {

struct Avx2 {
  using Vector = __m256;
  using Mask = __m256i;
  static constexpr int width = 8;
  static constexpr int rowsOfTwo = 6;  // 6 * 2 sums, 2 of b, 1 of a: 15 of 16 registers
  static constexpr int rowsOfFour = 2; // 2 * 4 + 4 + 1

  static Vector zero() { return _mm256_setzero_ps(); }
  static Vector broadcast(const float *from) { return _mm256_broadcast_ss(from); }
  static Vector load(const float *from) { return _mm256_loadu_ps(from); }
  static Vector load(const float *from, Mask mask) { return _mm256_maskload_ps(from, mask); }
  static void store(float *to, Vector value) { _mm256_storeu_ps(to, value); }
  static void store(float *to, Mask mask, Vector value) { _mm256_maskstore_ps(to, mask, value); }
  static Vector add(Vector x, Vector y) { return _mm256_add_ps(x, y); }
  static Vector multiplyAdd(Vector x, Vector y, Vector z) { return _mm256_fmadd_ps(x, y, z); }
  static Mask mask(int64_t lanes) {
    return _mm256_cmpgt_epi32(_mm256_set1_epi32(static_cast<int>(lanes)), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
  }
  static Mask maskOfBits(uint32_t bits) {
    const __m256i lanes = _mm256_setr_epi32(1, 2, 4, 8, 16, 32, 64, 128);
    return _mm256_cmpeq_epi32(_mm256_and_si256(_mm256_set1_epi32(static_cast<int>(bits)), lanes), lanes);
  }
  /// `base` with the lanes of the mask, which are 0 there, from memory.
  static Vector loadInto(Vector base, const float *from, Mask mask) {
    return _mm256_or_ps(base, _mm256_maskload_ps(from, mask));
  }
};

} // namespace
} // namespace tapeout::rt
