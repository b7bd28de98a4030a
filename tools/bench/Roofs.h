// What this machine can do at most, measured: bytes per second from memory and floating-point operations per second.
#pragma once

#include "runtime/base/Status.h"
#include "runtime/device/cpu/CpuIsa.h"
#include "runtime/device/cpu/ThreadPool.h"

namespace tapeout::bench {

struct Roofs {
  /// The triad of STREAM (McCalpin 1995), a = b + s c, over arrays larger than the caches; 24 bytes per element of f64.
  double bytesPerSecond = 0;
  /// Fused multiply-adds of f32 in registers, two operations each, in the widest instruction set there is.
  double flopsPerSecond = 0;
};

/// Fused multiply-adds of f32 in registers on all threads of the pool; takes about half a second.
double measureFlopsPerSecond(rt::ThreadPool &pool, rt::CpuIsa isa);

/// Takes about a second. `threads` 0: as many as this process may use. Unavailable without memory or AVX2.
Result<Roofs> measureRoofs(int threads);

} // namespace tapeout::bench
