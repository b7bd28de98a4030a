#include "tools/bench/Roofs.h"

#include "runtime/Arena.h"

#include <immintrin.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <thread>

namespace tapeout::bench {
namespace {

constexpr int kTriads = 8, kMultiplyAdds = 40; // repetitions, short and many: the best one counts
constexpr int kChains = 12;                     // independent sums: more than latency times units

double secondsOf(const auto &body) {
  auto start = std::chrono::steady_clock::now();
  body();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

/// Three arrays that together are four times the last cache, from 64 to 512 MiB; a quarter of the free memory at most.
uint64_t triadElements() {
  constexpr uint64_t kLeast = uint64_t{64} << 20, kMost = uint64_t{512} << 20;
  auto cache = static_cast<uint64_t>(std::max(0L, ::sysconf(_SC_LEVEL3_CACHE_SIZE)));
  return std::min(std::clamp(4 * cache, kLeast, kMost), rt::availableMemory() / 4) / (3 * sizeof(double));
}

Result<double> measureTriad(rt::ThreadPool &pool) {
  const auto count = static_cast<int64_t>(triadElements());
  rt::MemoryRegion regions[3];
  double *arrays[3];
  for (int i = 0; i < 3; ++i) {
    Result<rt::MemoryRegion> region = rt::MemoryRegion::create(count * sizeof(double), "arrays that measure the memory");
    if (!region.isOk())
      return region.status();
    regions[i] = std::move(*region);
    arrays[i] = reinterpret_cast<double *>(regions[i].data());
  }
  double *__restrict a = arrays[0];
  const double *b = arrays[1], *c = arrays[2];
  const double factor = 3;
  pool.parallelFor(count, 1, [&](int64_t begin, int64_t end) {
    for (double *array : arrays)
      std::fill(array + begin, array + end, 1.0);
  });
  double best = 1e30;
  for (int repetition = 0; repetition < kTriads; ++repetition)
    best = std::min(best, secondsOf([&] {
                      pool.parallelFor(count, 1, [&](int64_t begin, int64_t end) {
                        for (int64_t i = begin; i < end; ++i)
                          a[i] = b[i] + factor * c[i];
                      });
                    }));
  return 3.0 * sizeof(double) * static_cast<double>(count) / best;
}

/// Each gives parts of the sum, so that nothing can be left out.
__attribute__((target("avx512f"))) float multiplyAdd512(int64_t iterations) {
  __m512 sums[kChains], factor = _mm512_set1_ps(0.5f), term = _mm512_set1_ps(1.0f);
  for (__m512 &sum : sums)
    sum = term;
  for (int64_t i = 0; i < iterations; ++i)
#pragma GCC unroll 12
    for (__m512 &sum : sums)
      sum = _mm512_fmadd_ps(sum, factor, term);
  __m512 total = sums[0];
  for (int i = 1; i < kChains; ++i)
    total = _mm512_add_ps(total, sums[i]);
  alignas(64) float lanes[16];
  _mm512_store_ps(lanes, total);
  return lanes[0] + lanes[15];
}

__attribute__((target("avx2,fma"))) float multiplyAdd256(int64_t iterations) {
  __m256 sums[kChains], factor = _mm256_set1_ps(0.5f), term = _mm256_set1_ps(1.0f);
  for (__m256 &sum : sums)
    sum = term;
  for (int64_t i = 0; i < iterations; ++i)
#pragma GCC unroll 12
    for (__m256 &sum : sums)
      sum = _mm256_fmadd_ps(sum, factor, term);
  __m256 total = sums[0];
  for (int i = 1; i < kChains; ++i)
    total = _mm256_add_ps(total, sums[i]);
  alignas(32) float lanes[8];
  _mm256_store_ps(lanes, total);
  return lanes[0] + lanes[7];
}

} // namespace

double measureFlopsPerSecond(rt::ThreadPool &pool, rt::CpuIsa isa) {
  constexpr int64_t kIterations = 1'000'000;
  const bool wide = isa == rt::CpuIsa::Avx512;
  std::atomic<float> sink = 0;
  double best = 1e30;
  for (int repetition = 0; repetition < kMultiplyAdds; ++repetition)
    best = std::min(best, secondsOf([&] {
                      pool.parallelFor(pool.threads(), 1, [&](int64_t begin, int64_t end) {
                        for (int64_t i = begin; i < end; ++i)
                          sink = wide ? multiplyAdd512(kIterations) : multiplyAdd256(kIterations);
                      });
                    }));
  return 2.0 * (wide ? 16 : 8) * kChains * kIterations * pool.threads() / best;
}

Result<Roofs> measureRoofs(int threads) {
  Result<rt::CpuIsa> isa = rt::detectCpuIsa();
  if (!isa.isOk())
    return isa.status();
  rt::ThreadPool pool(threads > 0 ? threads : rt::usableProcessors());
  Result<double> triad = measureTriad(pool);
  if (!triad.isOk())
    return triad.status();
  return Roofs{*triad, measureFlopsPerSecond(pool, *isa)};
}

} // namespace tapeout::bench
