// Runs kernels that are written with the words of Hopper.h on the processor. What the GPU does later happens as late
// as it may: copies when they are awaited, products when their batch is. So numbers are wrong where a
// kernel does not wait.
#pragma once

#include "tests/codegen/cuda/GpuEmulator.h"

namespace tapeout::codegen {

/// As runOnEmulator, with so much shared memory for each block, filled with NaN before. Besides, reports accesses
/// out of bounds, products of what no fence has made visible to them, registers that change while a product reads them,
/// and what a thread leaves unfinished.
std::string runOnHopperEmulator(const Launch &launch, uint32_t sharedBytes, const std::function<void()> &thread);

} // namespace tapeout::codegen
