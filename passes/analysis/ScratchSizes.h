// Chooses how much scratch memory instructions get that can do with less. Plain C++, no IR.
#pragma once

#include "passes/analysis/MemoryPacking.h"

namespace tapeout {

/// Memory of one instruction, of one of these sizes: falling, at least one.
struct ScratchBuffer {
  uint32_t instruction;
  std::vector<uint64_t> sizes;
};

/// A size for each, as large as can be without a larger arena than the other buffers need. Nobody gets less than the largest
/// of his sizes up to `granted`, or his smallest, although the arena may grow by that.
std::vector<uint64_t> chooseScratchSizes(const std::vector<LiveBuffer> &buffers, const std::vector<ScratchBuffer> &scratch,
                                         uint64_t granted);

} // namespace tapeout
