// Runs kernels that are written with the words of Hopper.h on the processor. What the GPU does later happens as late
// as it may: copies when they are awaited, products when their batch is, boxes are read for writing when that is
// awaited. So numbers are wrong where a kernel does not wait.
#pragma once

#include "codegen/cuda/device/Hopper.h"
#include "tests/codegen/cuda/GpuEmulator.h"

namespace tapeout::codegen {

/// As runOnEmulator, with so much shared memory for each block, filled with NaN before. Besides, reports accesses
/// out of bounds, products and boxes of what no fence has made visible to them, registers that change while a product
/// reads them, memory that is used before its box has come or that changes before its box is read, and what a thread
/// leaves unfinished.
std::string runOnHopperEmulator(const Launch &launch, uint32_t sharedBytes, const std::function<void()> &thread);

/// A map of a matrix of 16-bit elements whose rows lie behind each other, by boxes with rows of 128 bytes.
hopper::TensorMap emulatedMap(const void *matrix, int64_t rows, int64_t columns, int32_t boxRows, int32_t boxColumns);

} // namespace tapeout::codegen
