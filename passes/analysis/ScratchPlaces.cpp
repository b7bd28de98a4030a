#include "passes/analysis/ScratchPlaces.h"

#include <algorithm>

namespace tapeout {
namespace {

struct Gap {
  uint64_t offset, bytes;
};

/// The largest gap of the arena at an instruction, the first of equals. The end of everything that lives, with no bytes, where
/// the arena is full.
Gap largestGap(const std::vector<LiveBuffer> &buffers, const Packing &packing, uint32_t instruction) {
  std::vector<Gap> occupied;
  for (size_t i = 0; i < buffers.size(); ++i)
    if (buffers[i].begin <= instruction && instruction <= buffers[i].end)
      occupied.push_back({packing.offsets[i], buffers[i].bytes});
  std::sort(occupied.begin(), occupied.end(), [](Gap a, Gap b) { return a.offset < b.offset; });
  Gap largest{0, 0};
  uint64_t end = 0;
  for (Gap buffer : occupied) {
    if (buffer.offset - end > largest.bytes)
      largest = {end, buffer.offset - end};
    end = buffer.offset + buffer.bytes;
  }
  return packing.bytes - end >= largest.bytes ? Gap{end, packing.bytes - end} : largest;
}

/// The largest size up to `bytes`, else the smallest.
uint64_t largestUpTo(const ScratchBuffer &scratch, uint64_t bytes) {
  auto fits = std::find_if(scratch.sizes.begin(), scratch.sizes.end(), [&](uint64_t size) { return size <= bytes; });
  return fits == scratch.sizes.end() ? scratch.sizes.back() : *fits;
}

} // namespace

std::vector<ScratchPlace> placeScratch(const std::vector<LiveBuffer> &buffers, Packing &packing,
                                       const std::vector<ScratchBuffer> &scratch, uint64_t granted) {
  // First the arena grows to what everybody gets in any case, then all take what it has.
  uint64_t bytes = packing.bytes;
  for (const ScratchBuffer &buffer : scratch) {
    const uint64_t least = largestUpTo(buffer, granted);
    if (largestGap(buffers, packing, buffer.instruction).bytes >= least)
      continue;
    uint64_t end = 0; // of all that lives
    for (size_t i = 0; i < buffers.size(); ++i)
      if (buffers[i].begin <= buffer.instruction && buffer.instruction <= buffers[i].end)
        end = std::max(end, packing.offsets[i] + buffers[i].bytes);
    bytes = std::max(bytes, end + least);
  }
  packing.bytes = bytes;
  std::vector<ScratchPlace> places;
  for (const ScratchBuffer &buffer : scratch) {
    Gap gap = largestGap(buffers, packing, buffer.instruction);
    places.push_back({largestUpTo(buffer, gap.bytes), gap.offset});
  }
  return places;
}

} // namespace tapeout
