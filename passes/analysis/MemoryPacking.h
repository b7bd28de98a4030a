// Packs buffers with known lifetimes into one arena (offline dynamic storage allocation). Plain C++, no IR.
#pragma once

#include <cstdint>
#include <vector>

namespace tapeout {

/// A buffer that is live from instruction `begin` to instruction `end`, both included.
struct LiveBuffer {
  uint64_t bytes;
  uint32_t begin, end;
};

struct Packing {
  std::vector<uint64_t> offsets; ///< one per buffer
  uint64_t bytes = 0;            ///< size of the arena
};

/// Places one buffer after the other, each at the tightest gap among those live at the same time: largest first (best fit
/// by size, as in "Efficient Memory Management for Deep Neural Net Inference", Pisarchyk and Lee 2020), by size times
/// duration, and by duration; the smallest arena of the three wins (of very many buffers only the first is tried). Sizes must be multiples of
/// the wanted alignment: offsets then are, too. Equal input gives equal output.
Packing packMemory(const std::vector<LiveBuffer> &buffers);

/// The largest sum of sizes live at one instruction: no packing can be smaller.
uint64_t peakLiveBytes(const std::vector<LiveBuffer> &buffers);

} // namespace tapeout
