// What this GPU can do at most, measured: the shares of a trace refer to it.
#pragma once

#include "runtime/Recording.h"
#include "runtime/device/cuda/CublasProduct.h"
#include "runtime/device/cuda/CudaDevice.h"

#include <span>

namespace tapeout::rt {

struct RoofSizes {
  uint64_t copyBytes = uint64_t(512) << 20;          ///< far beyond every cache; three matrices fit in twice that
  int64_t product = 8192, productOfF32 = 4096; ///< rows and columns; f32 has a tenth of the speed
};

/// A large copy, and a square product of each of `types`, random numbers, by the fastest of cuBLASLt's candidates. Takes
/// up to a second, and memory that it gives back; without it there are no roofs. `blas` may have no handle.
Result<Roofs> measureRoofs(const CudaDriver &driver, const CublasContext &blas, std::span<const ElementType> types,
                           CuStream stream, const RoofSizes &sizes = {});

} // namespace tapeout::rt
