// A CUDA driver, a cuBLASLt, a cuDNN and a CUPTI for machines without them: device memory is memory of the host, kernels are
// those of TestKernels.c. Work runs as late as it may, when something waits for it, so that a missing wait shows in the numbers.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/device/cuda/CuptiRecorder.h"

namespace tapeout::rt::test {

/// What the fake's tensor maps hold.
struct FakeTensorMap {
  int type;
  uint32_t rank;
  void *address;
  std::array<uint64_t, 2> sizes;
  uint64_t rowBytes;
  std::array<uint32_t, 2> box, elementStrides;
  int interleave, swizzle, promotion, fill;
  bool operator==(const FakeTensorMap &) const = default;
};

struct FakeCuda {
  // What it pretends to be.
  int devices = 1, major = 9, minor = 0;
  size_t freeBytes = size_t(1) << 30;
  std::string failingCall; ///< "cuMemAlloc_v2" fails with...
  int failure = 2;         ///< ...this (CUresult)
  std::string faultyKernel; ///< a launch of it breaks the device: what waits gets CUDA_ERROR_ILLEGAL_ADDRESS
  std::vector<double> algorithmMilliseconds = {3, 1, 2}; ///< of the algorithms that cuBLASLt has
  double biasMilliseconds = 0.5; ///< more, where a product adds a bias; negative: it cannot. A kernel takes 1
  int unlistedAlgorithm = -1;                            ///< of these, one that its heuristics leave out
  int kernelsPerProduct = 1;                             ///< of equal length
  bool strayKernel = false;                              ///< every launch of a graph is followed by a kernel beside it
  bool readsInGraph = false;                             ///< every captured product is followed by a copy to the host
  uint32_t cuptiVersion = 130001;
  int lostKernels = 0; ///< of the records of kernels that come next

  // What was seen.
  std::map<std::string, int> calls;
  std::vector<size_t> allocations; ///< of the device
  int64_t liveObjects = 0;         ///< allocations, modules, graphs, events, streams, contexts, handles, descriptors
  std::vector<std::string> images; ///< loaded: "cubin 90" (the byte behind the ELF header) or "ptx"
  std::vector<int> algorithms;     ///< of each product that ran
  int attentions = 0;              ///< calls of cuDNN that ran
  std::vector<std::vector<FakeTensorMap>> tensorMaps; ///< the two of each kernel called "..._mapped" that ran

  // The stream.
  using Kind = DeviceRecord::Kind;
  void submit(std::function<void()> work, double milliseconds, Kind kind, std::string kernel = "");
  double now = 0;                    ///< milliseconds of work done
  std::vector<DeviceRecord> records; ///< of that
};

/// The state behind the functions of the fake, fresh after reset.
FakeCuda &fakeCuda();
void resetFakeCuda();
/// Whether a function of the driver frees something; these never fail here, as nobody could act on it.
bool givesBack(std::string_view call);

} // namespace tapeout::rt::test
