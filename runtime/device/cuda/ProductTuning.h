// The choice of a library kernel for every product: what an earlier run measured, else what is fastest now.
#pragma once

#include "runtime/device/cuda/CublasProduct.h"
#include "runtime/device/cuda/TuningFile.h"

#include <span>

namespace tapeout::rt {

/// Fills memory of the device with numbers that are finite in f32, bf16 and f16. `begin` is aligned to 256 bytes.
Status fillWithRandomNumbers(const CudaDriver &driver, CuDevicePointer begin, uint64_t bytes, CuStream stream);

/// Sets the algorithm of every product. Products that the file at `path` does not know are timed, 10 seconds in all, on
/// whatever their operands hold, and their results are overwritten; the file is then written anew. Where `path` is empty or
/// cannot be written nothing is timed and the library's first choice is taken, since a choice that is not kept would change
/// the bits of the next run. Returns what was done, for people: "31 products, tuned in 2.1 s".
Result<std::string> chooseAlgorithms(const CudaDriver &driver, std::span<CublasProduct> products, CuStream stream,
                                     const std::string &path, const TuningIdentity &identity);

} // namespace tapeout::rt
