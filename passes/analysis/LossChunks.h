// How many chunks of rows logits are computed in. Plain C++, no IR.
#pragma once

#include <cstdint>
#include <vector>

namespace tapeout {

struct LogitsSize {
  int64_t rows;      ///< that can be in chunks of their own: samples, for one
  uint64_t bytes;    ///< of all rows
  int64_t positions; ///< of all rows: rows of the product
  int64_t granule;   ///< chunks begin at multiples of so many rows
};

/// The rows of each chunk. `wanted`: chunks, fewer where there are not as many granules; 0: as few as keep the memory of a
/// chunk's logits low.
std::vector<int64_t> chooseLossChunks(const LogitsSize &logits, int64_t wanted);

} // namespace tapeout
