// Scratch memory lies beside what lives, takes what is free, and no more.
#include "passes/analysis/ScratchPlaces.h"

#include <gtest/gtest.h>

#include <random>

namespace tapeout {
namespace {

using Sizes = std::vector<uint64_t>;

Sizes sizesOf(const std::vector<ScratchPlace> &places) {
  Sizes sizes;
  for (const ScratchPlace &place : places)
    sizes.push_back(place.bytes);
  return sizes;
}

void expectBesideWhatLives(const std::vector<LiveBuffer> &buffers, const Packing &packing, uint32_t instruction,
                           const ScratchPlace &place) {
  EXPECT_LE(place.offset + place.bytes, packing.bytes);
  for (size_t i = 0; i < buffers.size(); ++i) {
    bool lives = buffers[i].begin <= instruction && instruction <= buffers[i].end;
    bool apart = packing.offsets[i] + buffers[i].bytes <= place.offset || place.offset + place.bytes <= packing.offsets[i];
    EXPECT_TRUE(apart || !lives || place.bytes == 0) << "buffer " << i;
  }
}

TEST(ScratchPlaces, TakeWhatIsFreeAtTheirInstruction) {
  // 100 bytes at instruction 0, of which 30 live until the end; 40 more from 3 on.
  std::vector<LiveBuffer> buffers = {{30, 0, 4}, {70, 0, 0}, {40, 3, 4}};
  Packing packing = packMemory(buffers);
  auto places = placeScratch(buffers, packing, {{1, {80, 40, 20}}, {2, {70, 35}}, {3, {80, 40, 20}}}, 0);
  EXPECT_EQ(sizesOf(places), (Sizes{40, 70, 20}));
  EXPECT_EQ(packing.bytes, 100);
}

TEST(ScratchPlaces, GetWhatIsGrantedAlthoughTheArenaGrows) {
  std::vector<LiveBuffer> buffers = {{100, 0, 1}};
  auto place = [&](const std::vector<ScratchBuffer> &scratch, uint64_t granted, uint64_t arena) {
    Packing packing = packMemory(buffers);
    Sizes sizes = sizesOf(placeScratch(buffers, packing, scratch, granted));
    EXPECT_EQ(packing.bytes, arena);
    return sizes;
  };
  EXPECT_EQ(place({{1, {80, 40, 20}}}, 50, 140), (Sizes{40}));
  EXPECT_EQ(place({{1, {80, 40, 20}}}, 5, 120), (Sizes{20})); // it cannot do with less
  // And then others may have as much.
  EXPECT_EQ(place({{1, {80, 40, 20}}, {2, {140, 100}}}, 50, 140), (Sizes{40, 140}));
  EXPECT_EQ(place({{2, {140, 100}}, {1, {80, 40, 20}}}, 50, 140), (Sizes{140, 40}));
}

TEST(ScratchPlaces, TakeTheLargestGapOfMany) {
  std::vector<LiveBuffer> buffers = {{10, 0, 9}, {10, 0, 9}, {10, 0, 9}};
  Packing packing{{10, 50, 70}, 90};
  EXPECT_EQ(placeScratch(buffers, packing, {{5, {100, 30, 10}}}, 0)[0].offset, 20);
  packing = {{0, 20, 30}, 90};
  EXPECT_EQ(placeScratch(buffers, packing, {{5, {50, 10}}}, 0)[0].offset, 40);
  packing = {{80, 20, 30}, 90};
  EXPECT_EQ(placeScratch(buffers, packing, {{5, {50, 40}}}, 0)[0].offset, 40);
  EXPECT_EQ(placeScratch(buffers, packing, {{10, {90}}}, 0)[0].offset, 0); // nothing lives
  EXPECT_EQ(packing.bytes, 90);
}

TEST(ScratchPlaces, LieBesideWhatLivesInRandomArenas) {
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
    for (uint64_t granted : {0, 300}) {
      Packing packing = packMemory(buffers);
      const uint64_t before = packing.bytes;
      std::vector<ScratchPlace> places = placeScratch(buffers, packing, scratch, granted);
      for (size_t i = 0; i < scratch.size(); ++i) {
        expectBesideWhatLives(buffers, packing, scratch[i].instruction, places[i]);
        EXPECT_GE(places[i].bytes, granted == 0 ? 0 : 256);
      }
      EXPECT_LE(packing.bytes, before + (granted == 0 ? 0 : 256));
    }
  }
}

} // namespace
} // namespace tapeout
