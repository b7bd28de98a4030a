// Memory packing against exhaustive search on small cases, and its promises on large random ones.
#include "passes/analysis/MemoryPacking.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>

namespace tapeout {
namespace {

bool liveTogether(const LiveBuffer &a, const LiveBuffer &b) { return a.begin <= b.end && b.begin <= a.end; }

void expectNoOverlap(const std::vector<LiveBuffer> &buffers, const Packing &packing) {
  for (size_t i = 0; i < buffers.size(); ++i) {
    EXPECT_LE(packing.offsets[i] + buffers[i].bytes, packing.bytes);
    for (size_t j = 0; j < i; ++j) {
      bool apart = packing.offsets[i] + buffers[i].bytes <= packing.offsets[j] ||
                   packing.offsets[j] + buffers[j].bytes <= packing.offsets[i];
      EXPECT_TRUE(apart || !liveTogether(buffers[i], buffers[j])) << i << " and " << j;
    }
  }
}

// The best arena over all orders of first-fit placement, which contains an optimal packing.
uint64_t optimalBytes(const std::vector<LiveBuffer> &buffers) {
  std::vector<size_t> order(buffers.size());
  std::iota(order.begin(), order.end(), 0);
  uint64_t best = UINT64_MAX;
  do {
    std::vector<uint64_t> offsets(buffers.size());
    uint64_t total = 0;
    for (size_t n = 0; n < order.size(); ++n) {
      std::vector<std::pair<uint64_t, uint64_t>> taken;
      for (size_t m = 0; m < n; ++m)
        if (liveTogether(buffers[order[n]], buffers[order[m]]))
          taken.push_back({offsets[order[m]], buffers[order[m]].bytes});
      std::sort(taken.begin(), taken.end());
      uint64_t offset = 0;
      for (auto [begin, bytes] : taken)
        if (offset + buffers[order[n]].bytes > begin)
          offset = std::max(offset, begin + bytes);
      offsets[order[n]] = offset;
      total = std::max(total, offset + buffers[order[n]].bytes);
    }
    best = std::min(best, total);
  } while (std::next_permutation(order.begin(), order.end()));
  return best;
}

std::vector<LiveBuffer> randomBuffers(std::mt19937 &random, size_t count, uint32_t time) {
  std::vector<LiveBuffer> buffers;
  for (size_t i = 0; i < count; ++i) {
    uint32_t a = random() % time, b = random() % time;
    buffers.push_back({64 * (1 + random() % 8), std::min(a, b), std::max(a, b)});
  }
  return buffers;
}

TEST(MemoryPacking, EmptyAndSingle) {
  EXPECT_EQ(packMemory({}).bytes, 0u);
  EXPECT_EQ(packMemory({{128, 3, 5}}).bytes, 128u);
}

TEST(MemoryPacking, BuffersThatNeverMeetShareBytes) {
  Packing packing = packMemory({{256, 0, 1}, {256, 2, 3}, {256, 4, 9}});
  EXPECT_EQ(packing.bytes, 256u);
}

TEST(MemoryPacking, TouchingLifetimesMeet) { // an instruction reads one buffer while it writes the other
  EXPECT_EQ(packMemory({{256, 0, 2}, {256, 2, 3}}).bytes, 512u);
}

TEST(MemoryPacking, CloseToOptimalOnSmallCases) {
  std::mt19937 random(1);
  double worst = 1, sum = 0;
  const int cases = 60;
  for (int i = 0; i < cases; ++i) {
    auto buffers = randomBuffers(random, 6, 8);
    Packing packing = packMemory(buffers);
    expectNoOverlap(buffers, packing);
    EXPECT_GE(packing.bytes, peakLiveBytes(buffers));
    double ratio = double(packing.bytes) / double(optimalBytes(buffers));
    EXPECT_GE(ratio, 1.0);
    worst = std::max(worst, ratio);
    sum += ratio;
  }
  EXPECT_LE(worst, 1.35);
  EXPECT_LE(sum / cases, 1.03);
}

TEST(MemoryPacking, LargeRandomCasesDoNotOverlapAndRepeat) {
  std::mt19937 random(2);
  auto buffers = randomBuffers(random, 700, 4000);
  Packing packing = packMemory(buffers);
  expectNoOverlap(buffers, packing);
  EXPECT_LE(packing.bytes, peakLiveBytes(buffers) * 5 / 4);
  EXPECT_EQ(packMemory(buffers).offsets, packing.offsets);
}

TEST(MemoryPacking, TrainingStepNeedsNoMoreThanItsPeak) { // saved in the forward, freed in reverse by the backward
  std::vector<LiveBuffer> buffers;
  const uint32_t layers = 200;
  for (uint32_t i = 0; i < layers; ++i) {
    buffers.push_back({4096, 3 * i, 6 * layers - 3 * i});    // saved activation
    buffers.push_back({8192, 3 * i, 3 * i + 1});             // forward temporary
    buffers.push_back({8192, 6 * layers - 3 * i - 1, 6 * layers - 3 * i}); // backward temporary
  }
  EXPECT_LE(packMemory(buffers).bytes, peakLiveBytes(buffers) * 21 / 20);
}

} // namespace
} // namespace tapeout
