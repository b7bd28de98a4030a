// Scratch memory gets what is free, and no more.
#include "passes/analysis/ScratchSizes.h"

#include <gtest/gtest.h>

#include <random>

namespace tapeout {
namespace {

using Sizes = std::vector<uint64_t>;

TEST(ScratchSizes, TakeWhatIsFreeAtTheirInstruction) {
  // 100 bytes at instruction 0, of which 30 live until the end; 40 more from 3 on.
  std::vector<LiveBuffer> buffers = {{30, 0, 4}, {70, 0, 0}, {40, 3, 4}};
  std::vector<ScratchBuffer> scratch = {{1, {80, 40, 20}}, {2, {70, 35}}, {3, {80, 40, 20}}};
  EXPECT_EQ(chooseScratchSizes(buffers, scratch, 0), (Sizes{40, 70, 20}));
}

TEST(ScratchSizes, GetWhatIsGrantedAlthoughTheArenaGrows) {
  std::vector<LiveBuffer> buffers = {{100, 0, 1}};
  EXPECT_EQ(chooseScratchSizes(buffers, {{1, {80, 40, 20}}}, 50), (Sizes{40}));
  EXPECT_EQ(chooseScratchSizes(buffers, {{1, {80, 40, 20}}}, 5), (Sizes{20})); // it cannot do with less
  // And then others may have as much.
  EXPECT_EQ(chooseScratchSizes(buffers, {{1, {80, 40, 20}}, {2, {140, 100}}}, 50), (Sizes{40, 140}));
}

TEST(ScratchSizes, GiveWayWhereFreeBytesLieInPieces) {
  // 60 bytes are free at instruction 2, but the buffer in the middle of the arena stays there.
  std::vector<LiveBuffer> buffers = {{50, 0, 1}, {40, 1, 3}, {50, 3, 4}, {60, 0, 0}, {60, 4, 4}};
  const Packing packing = packMemory(buffers);
  std::vector<ScratchBuffer> scratch = {{2, {packing.bytes - 40, 30, 10}}};
  Sizes chosen = chooseScratchSizes(buffers, scratch, 0);
  buffers.push_back({chosen[0], 2, 2});
  EXPECT_LE(packMemory(buffers).bytes, packing.bytes);
}

TEST(ScratchSizes, NeverEnlargeTheArenaOfRandomBuffers) {
  std::mt19937 random(1);
  for (int round = 0; round < 200; ++round) {
    std::vector<LiveBuffer> buffers;
    for (int i = 0; i < 20; ++i) {
      uint32_t begin = random() % 16, end = begin + random() % 6;
      buffers.push_back({(1 + random() % 9) * 64, begin, end});
    }
    std::vector<ScratchBuffer> scratch;
    for (uint32_t i = 0; i < 4; ++i)
      scratch.push_back({static_cast<uint32_t>(random() % 20), {1024, 512, 256, 128, 0}});
    const uint64_t before = packMemory(buffers).bytes;
    Sizes chosen = chooseScratchSizes(buffers, scratch, 0);
    for (size_t i = 0; i < scratch.size(); ++i)
      buffers.push_back({chosen[i], scratch[i].instruction, scratch[i].instruction});
    EXPECT_LE(packMemory(buffers).bytes, before);
  }
}

} // namespace
} // namespace tapeout
