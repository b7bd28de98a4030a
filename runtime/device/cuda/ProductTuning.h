// The choice of a library kernel for every product, and of who adds its bias: what an earlier run measured, else what is
// fastest now.
#pragma once

#include "runtime/device/cuda/CublasProduct.h"
#include "runtime/device/cuda/TuningFile.h"

#include <functional>
#include <optional>
#include <span>

namespace tapeout::rt {

/// Fills memory of the device with numbers that are finite in f32, bf16 and f16. `begin` is aligned to 256 bytes.
Status fillWithRandomNumbers(const CudaDriver &driver, CuDevicePointer begin, uint64_t bytes, CuStream stream);

/// A product of a program, and how it is run.
struct TunedProduct {
  CublasProduct plain;                              ///< without its bias
  std::optional<CublasProduct> withBias = {};       ///< absent: there is no bias
  std::function<Status()> addBias = {};             ///< queues the kernel that does it
  TuningChoice choice = {};

  const std::string &key() const { return (withBias ? *withBias : plain).key(); }
  /// Queues it as `how` says.
  Status run(const TuningChoice &how) const;
  Status run() const { return run(choice); }
};

/// Sets the choice of every product. Products that the file at `path` does not know are timed, 10 seconds in all, on
/// whatever their operands hold, and their results are overwritten; the file is then written anew. Where `path` is empty or
/// cannot be written nothing is timed and the library's first choice is taken, since a choice that is not kept would change
/// the bits of the next run. Returns what was done, for people: "31 products, tuned in 2.1 s".
Result<std::string> chooseAlgorithms(const CudaDriver &driver, std::span<TunedProduct> products, CuStream stream,
                                     const std::string &path, const TuningIdentity &identity);

} // namespace tapeout::rt
