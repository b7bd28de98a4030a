// Chunks are as few as keep logits small, and not so small that products become slow.
#include "passes/analysis/LossChunks.h"

#include <gtest/gtest.h>

namespace tapeout {
namespace {

using Sizes = std::vector<int64_t>;

/// Logits of 16 bits, as many samples of 1,024 tokens each.
LogitsSize logitsOf(int64_t samples, int64_t classes, int64_t tokens = 1024) {
  return {samples, uint64_t(samples * tokens * classes * 2), samples * tokens, 1};
}

TEST(LossChunks, SmallLogitsStayWhole) {
  EXPECT_EQ(chooseLossChunks(logitsOf(12, 256, 64), 0), (Sizes{12}));
  EXPECT_EQ(chooseLossChunks(logitsOf(16, 16384), 0), (Sizes{16})); // 512 MiB
  EXPECT_EQ(chooseLossChunks(logitsOf(16, 16385), 0), (Sizes{8, 8}));
}

TEST(LossChunks, HaveTwoGibibytesAtMost) {
  EXPECT_EQ(chooseLossChunks(logitsOf(64, 50304), 0), Sizes(4, 16));         // 6.1 GiB
  EXPECT_EQ(chooseLossChunks(logitsOf(8, 50304), 0), Sizes(2, 4));           // 0.8 GiB
  EXPECT_EQ(chooseLossChunks(logitsOf(64, 30528, 512), 0), Sizes(2, 32));    // 1.9 GiB
  EXPECT_EQ(chooseLossChunks(logitsOf(64, 32768), 0), Sizes(2, 32));         // 4 GiB
  EXPECT_EQ(chooseLossChunks(logitsOf(50, 50304), 0), Sizes(5, 10));         // three or four would not be equal
  EXPECT_EQ(chooseLossChunks(logitsOf(61, 50304), 0), (Sizes{21, 21, 19}));  // no divisor is near
}

TEST(LossChunks, HaveRowsForTheirProducts) {
  EXPECT_EQ(chooseLossChunks(logitsOf(4, 256000), 0), (Sizes{4})); // 2 GiB in 4,096 rows
  EXPECT_EQ(chooseLossChunks(logitsOf(8, 256000), 0), (Sizes{4, 4}));
}

TEST(LossChunks, AreAsManyAsWantedIfThereAreRows) {
  EXPECT_EQ(chooseLossChunks(logitsOf(64, 50304), 1), (Sizes{64}));
  EXPECT_EQ(chooseLossChunks(logitsOf(12, 256, 64), 4), Sizes(4, 3));
  EXPECT_EQ(chooseLossChunks(logitsOf(12, 256, 64), 5), (Sizes{3, 3, 3, 3}));
  EXPECT_EQ(chooseLossChunks(logitsOf(7, 256, 64), 3), (Sizes{3, 3, 1}));
  EXPECT_EQ(chooseLossChunks(logitsOf(3, 256, 64), 100), (Sizes{1, 1, 1}));
}

TEST(LossChunks, BeginAtGranules) {
  LogitsSize logits = logitsOf(10, 256);
  logits.granule = 4;
  EXPECT_EQ(chooseLossChunks(logits, 2), (Sizes{8, 2}));
  EXPECT_EQ(chooseLossChunks(logits, 10), (Sizes{4, 4, 2}));
  logits = logitsOf(64, 50304);
  logits.granule = 32;
  EXPECT_EQ(chooseLossChunks(logits, 0), Sizes(2, 32));
}

} // namespace
} // namespace tapeout
