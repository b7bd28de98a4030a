#include "passes/analysis/ScratchSizes.h"

#include <algorithm>

namespace tapeout {
namespace {

/// Index into its sizes of the largest up to `bytes`, else of the smallest.
size_t largestUpTo(const ScratchBuffer &scratch, uint64_t bytes) {
  auto fits = std::find_if(scratch.sizes.begin(), scratch.sizes.end(), [&](uint64_t size) { return size <= bytes; });
  return std::min<size_t>(fits - scratch.sizes.begin(), scratch.sizes.size() - 1);
}

std::vector<uint64_t> sizesAt(const std::vector<ScratchBuffer> &scratch, const std::vector<size_t> &choice) {
  std::vector<uint64_t> sizes;
  for (size_t i = 0; i < scratch.size(); ++i)
    sizes.push_back(scratch[i].sizes[choice[i]]);
  return sizes;
}

uint64_t arenaBytes(std::vector<LiveBuffer> buffers, const std::vector<ScratchBuffer> &scratch,
                    const std::vector<size_t> &choice) {
  std::vector<uint64_t> sizes = sizesAt(scratch, choice);
  for (size_t i = 0; i < scratch.size(); ++i)
    buffers.push_back({sizes[i], scratch[i].instruction, scratch[i].instruction});
  return packMemory(buffers).bytes;
}

uint64_t liveBytesAt(const std::vector<LiveBuffer> &buffers, uint32_t instruction) {
  uint64_t bytes = 0;
  for (const LiveBuffer &buffer : buffers)
    if (buffer.begin <= instruction && instruction <= buffer.end)
      bytes += buffer.bytes;
  return bytes;
}

} // namespace

// 1. What is granted, and the arena it needs: the limit. 2. For each what is free at its instruction. 3. Free bytes may lie in
// pieces: while the arena exceeds the limit, whoever has most gets one size less.
std::vector<uint64_t> chooseScratchSizes(const std::vector<LiveBuffer> &buffers, const std::vector<ScratchBuffer> &scratch,
                                         uint64_t granted) {
  std::vector<size_t> floor, choice;
  for (const ScratchBuffer &buffer : scratch)
    floor.push_back(largestUpTo(buffer, granted));
  const uint64_t limit = std::max(packMemory(buffers).bytes, arenaBytes(buffers, scratch, floor));
  for (size_t i = 0; i < scratch.size(); ++i) {
    uint64_t live = liveBytesAt(buffers, scratch[i].instruction);
    choice.push_back(std::min(floor[i], largestUpTo(scratch[i], limit - live)));
  }
  while (choice != floor && arenaBytes(buffers, scratch, choice) > limit) {
    uint64_t most = 0;
    for (size_t i = 0; i < scratch.size(); ++i)
      if (choice[i] < floor[i])
        most = std::max(most, scratch[i].sizes[choice[i]]);
    for (size_t i = 0; i < scratch.size(); ++i)
      if (choice[i] < floor[i] && scratch[i].sizes[choice[i]] == most)
        ++choice[i];
  }
  return sizesAt(scratch, choice);
}

} // namespace tapeout
