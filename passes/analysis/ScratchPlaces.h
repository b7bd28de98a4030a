// Places the scratch memory of instructions that can do with less or more of it. Plain C++, no IR.
#pragma once

#include "passes/analysis/MemoryPacking.h"

namespace tapeout {

/// Memory of one instruction, of one of these sizes: falling, at least one.
struct ScratchBuffer {
  uint32_t instruction;
  std::vector<uint64_t> sizes;
};

struct ScratchPlace {
  uint64_t bytes, offset;
};

/// Each gets the largest of its sizes that a gap of the arena takes between the buffers that live at its instruction. Nobody gets
/// less than the largest of his sizes up to `granted`, or his smallest: where no gap takes that, the arena grows
/// (`packing.bytes`). Sizes must be multiples of the wanted alignment, as for packMemory.
std::vector<ScratchPlace> placeScratch(const std::vector<LiveBuffer> &buffers, Packing &packing,
                                       const std::vector<ScratchBuffer> &scratch, uint64_t granted);

} // namespace tapeout
