#include "runtime/io/Permutation.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <vector>

namespace tapeout::rt {
namespace {

std::vector<uint64_t> order(uint64_t count, uint64_t seed, uint64_t epoch) {
  Permutation permutation(count, seed, epoch);
  std::vector<uint64_t> entries(count);
  for (uint64_t i = 0; i < count; ++i)
    entries[i] = permutation(i);
  return entries;
}

TEST(Permutation, HasEveryEntryOnceForEverySize) {
  for (uint64_t count = 1; count <= 60; ++count) {
    std::vector<uint64_t> entries = order(count, 3, count);
    std::sort(entries.begin(), entries.end());
    for (uint64_t i = 0; i < count; ++i)
      ASSERT_EQ(entries[i], i) << "of " << count;
  }
}

TEST(Permutation, ChangesWithSeedAndEpoch) {
  EXPECT_NE(order(1000, 1, 0), order(1000, 2, 0));
  EXPECT_NE(order(1000, 1, 0), order(1000, 1, 1));
  EXPECT_NE(order(1000, 1, 0), order(1000, uint64_t{1} | uint64_t{1} << 40, 0));
  EXPECT_EQ(order(1000, 1, 5), order(1000, 1, 5));
}

TEST(Permutation, StaysTheSameBetweenVersions) {
  // Resuming a run relies on this order: a change needs a new checkpoint format version.
  EXPECT_EQ(order(10, 42, 0), (std::vector<uint64_t>{4, 0, 1, 7, 2, 8, 3, 9, 6, 5}));
}

TEST(Permutation, PutsEverySampleEverywhereEquallyOften) {
  // Chi-squared of the 7 x 7 counts (36 degrees of freedom) over 2,100 epochs: the 99.99% quantile is 79.
  constexpr uint64_t kCount = 7, kEpochs = 2100;
  std::vector<double> counts(kCount * kCount);
  for (uint64_t epoch = 0; epoch < kEpochs; ++epoch) {
    std::vector<uint64_t> entries = order(kCount, 11, epoch);
    for (uint64_t i = 0; i < kCount; ++i)
      ++counts[i * kCount + entries[i]];
  }
  double expected = static_cast<double>(kEpochs) / kCount, chiSquared = 0;
  for (double count : counts)
    chiSquared += (count - expected) * (count - expected) / expected;
  EXPECT_LT(chiSquared, 79);
}

TEST(Permutation, NeighboursAreIndependent) {
  // The differences of neighbours modulo the count: 64 bins of 256 on average, 63 degrees of freedom, 99.99% is 113.
  constexpr uint64_t kCount = 16384;
  std::vector<uint64_t> entries = order(kCount, 5, 0);
  std::vector<double> bins(64);
  for (uint64_t i = 0; i + 1 < kCount; ++i)
    ++bins[(entries[i + 1] + kCount - entries[i]) % kCount / 256];
  double chiSquared = 0;
  for (double bin : bins)
    chiSquared += (bin - 256) * (bin - 256) / 256;
  EXPECT_LT(chiSquared, 113);
}

TEST(Permutation, ReachesHugeCounts) {
  constexpr uint64_t kCount = (uint64_t{1} << 62) - 5;
  Permutation permutation(kCount, 1, 1);
  EXPECT_LT(permutation(0), kCount);
  EXPECT_LT(permutation(kCount - 1), kCount);
  EXPECT_NE(permutation(0), permutation(1));
}

TEST(EpochRandom, ChangesWithSeedAndEpoch) {
  EXPECT_NE(epochRandom(1, 0), epochRandom(2, 0));
  EXPECT_NE(epochRandom(1, 0), epochRandom(1, 1));
}

} // namespace
} // namespace tapeout::rt
