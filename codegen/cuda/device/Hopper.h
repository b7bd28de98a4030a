// What a kernel that is written by hand says to a Hopper GPU (sm_90a): asynchronous copies, barriers in shared memory,
// products of a warpgroup. Names and semantics are those of the PTX ISA 8.3, chapters "mbarrier", "cp.async" and
// "wgmma". Shared memory is addressed by integers. Compiled by clang for NVPTX; tests compile it for the processor
// (tests/codegen/cuda/EmulatedHopper.h).
#pragma once

#include <stdint.h>

#define TAPEOUT_DEVICE inline __attribute__((always_inline))

namespace hopper {

constexpr int kWarp = 32, kWarpgroup = 128;

/// How a matrix of global memory is copied box by box, encoded by the driver (CUtensorMap): an argument by value.
struct alignas(64) TensorMap {
  uint64_t opaque[16];
};

#ifdef __NVPTX__
#define TAPEOUT_KERNEL extern "C" __attribute__((nvptx_kernel)) void
#include "codegen/cuda/device/HopperPtx.h"
#else
#include "EmulatedHopper.h" // on the include path of tests only
#endif

/// A matrix in shared memory with rows of 128 bytes, swizzled by 128 bytes: piece `c` of 16 bytes of row `r` lies at
/// r * 128 + (c ^ r % 8) * 16. Its address is a multiple of 1,024.
constexpr uint32_t kRowBytes = 128;
TAPEOUT_DEVICE uint32_t swizzled(int row, int piece) { return row * kRowBytes + ((piece ^ (row & 7)) << 4); }

/// Such a matrix as operand of a product ("matrix descriptor"): 8 rows are 1,024 bytes apart from the next 8.
TAPEOUT_DEVICE uint64_t describe(uint32_t address) {
  constexpr uint64_t kGroupStride = 1024 >> 4, kSwizzle128 = 1;
  return uint64_t((address & 0x3FFFF) >> 4) | uint64_t(1) << 16 | kGroupStride << 32 | kSwizzle128 << 62;
}
/// The matrix that begins `bytes` behind. Half the arithmetic of a sum of 64 bits.
TAPEOUT_DEVICE uint64_t behind(uint64_t matrix, uint32_t bytes) {
  return (matrix & 0xFFFFFFFF00000000) | uint32_t(uint32_t(matrix) + (bytes >> 4));
}

} // namespace hopper
