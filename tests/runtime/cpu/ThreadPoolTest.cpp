#include "runtime/device/cpu/ThreadPool.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

namespace tapeout::rt {
namespace {

using Range = std::pair<int64_t, int64_t>;

std::vector<Range> rangesOf(ThreadPool &pool, int64_t count, int64_t grain) {
  std::mutex mutex;
  std::vector<Range> ranges;
  pool.parallelFor(count, grain, [&](int64_t begin, int64_t end) {
    std::lock_guard lock(mutex);
    ranges.emplace_back(begin, end);
  });
  std::sort(ranges.begin(), ranges.end());
  return ranges;
}

TEST(ThreadPool, RangesCoverTheCountOnceAndKeepTheGrain) {
  for (int threads : {1, 2, 3, 4, 7}) {
    ThreadPool pool(threads);
    for (int64_t count : {1, 2, 5, 6, 7, 100, 1001})
      for (int64_t grain : {0, 1, 2, 3, 64, 2000}) {
        std::vector<Range> ranges = rangesOf(pool, count, grain);
        int64_t expectedBegin = 0;
        for (auto [begin, end] : ranges) {
          EXPECT_EQ(begin, expectedBegin);
          EXPECT_GE(end - begin, std::min(std::max<int64_t>(grain, 1), count));
          expectedBegin = end;
        }
        EXPECT_EQ(expectedBegin, count);
        int64_t expectedRanges = std::clamp<int64_t>(count / std::max<int64_t>(grain, 1), 1, pool.threads());
        EXPECT_EQ(static_cast<int64_t>(ranges.size()), expectedRanges);
      }
  }
}

TEST(ThreadPool, NothingRunsForAnEmptyCount) {
  ThreadPool pool(2);
  EXPECT_TRUE(rangesOf(pool, 0, 1).empty());
  EXPECT_TRUE(rangesOf(pool, -3, 1).empty());
}

TEST(ThreadPool, HugeCountsDoNotOverflow) {
  ThreadPool pool(3);
  std::vector<Range> ranges = rangesOf(pool, INT64_MAX, 1);
  ASSERT_EQ(ranges.size(), 3u);
  EXPECT_EQ(ranges.back().second, INT64_MAX);
}

// Without a lock: what one launch wrote, every thread of the next launch sees.
TEST(ThreadPool, ManyTinyLaunchesSeeEachOthersWrites) {
  ThreadPool pool(4);
  constexpr int64_t count = 257;
  std::vector<int> from(count, 0), to(count, 0);
  for (int launch = 0; launch < 20000; ++launch) {
    pool.parallelFor(count, 1, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i)
        to[i] = from[count - 1 - i] + 1;
    });
    std::swap(from, to);
  }
  EXPECT_EQ(std::count(from.begin(), from.end(), 20000), count);
}

TEST(ThreadPool, SleepingWorkersWakeUp) {
  ThreadPool pool(3);
  for (int launch = 0; launch < 20; ++launch) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1)); // far above the spin time
    std::atomic<int> present = 0;
    auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(2);
    pool.parallelFor(3, 1, [&](int64_t, int64_t) {
      ++present;
      while (present < 3 && std::chrono::steady_clock::now() < deadline)
        std::this_thread::yield();
    });
    ASSERT_LT(std::chrono::steady_clock::now(), deadline) << "a range had to wait for a thread that never came";
  }
}

TEST(ThreadPool, ANestedLaunchRunsOnItsCaller) {
  ThreadPool pool(2);
  std::atomic<int64_t> inner = 0;
  pool.parallelFor(2, 1, [&](int64_t, int64_t) {
    auto self = std::this_thread::get_id();
    pool.parallelFor(100, 1, [&](int64_t begin, int64_t end) {
      EXPECT_EQ(std::this_thread::get_id(), self);
      inner += end - begin;
    });
  });
  EXPECT_EQ(inner, 200);
}

TEST(ThreadPool, TwoThreadsMayShareAPool) {
  ThreadPool pool(2);
  auto launchMany = [&] {
    for (int launch = 0; launch < 2000; ++launch) {
      std::atomic<int64_t> sum = 0;
      pool.parallelFor(10, 1, [&](int64_t begin, int64_t end) { sum += end - begin; });
      ASSERT_EQ(sum, 10);
    }
  };
  std::thread other(launchMany);
  launchMany();
  other.join();
}

TEST(ThreadPool, StartsAndStopsCleanly) {
  for (int i = 0; i < 100; ++i) {
    ThreadPool pool(1 + i % 4);
    if (i % 3 == 0) {
      EXPECT_FALSE(rangesOf(pool, 8, 1).empty());
    }
  }
}

} // namespace
} // namespace tapeout::rt
