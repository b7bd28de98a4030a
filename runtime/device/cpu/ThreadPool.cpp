#include "runtime/device/cpu/ThreadPool.h"

#include <sched.h>

#include <algorithm>
#include <cassert>
#include <chrono>
#include <system_error>

namespace tapeout::rt {

int usableProcessors() {
  cpu_set_t set;
  return sched_getaffinity(0, sizeof set, &set) == 0 ? std::max(1, CPU_COUNT(&set)) : 1;
}

// Long enough to bridge the gap between two launches of a step, short enough not to burn a core between steps.
static constexpr auto spinTime = std::chrono::microseconds(50);

// Wakes sleeping workers for good; no range can be claimed from it because it is negative.
static constexpr int stopMark = -1;

static void pause() { __builtin_ia32_pause(); }

/// Spins until done() holds; false if spinTime went by first.
template <typename Predicate> static bool spinUntil(Predicate done) {
  auto deadline = std::chrono::steady_clock::now() + spinTime;
  do {
    for (int i = 0; i < 32; ++i) {
      if (done())
        return true;
      pause();
    }
  } while (std::chrono::steady_clock::now() < deadline);
  return false;
}

ThreadPool::ThreadPool(int threads) {
  assert(threads >= 1);
  workers_.reserve(threads - 1);
  try {
    for (int i = 1; i < threads; ++i)
      workers_.emplace_back([this] { work(); });
  } catch (const std::system_error &) {
    // The process may not start more threads; the ones that exist do the same work.
  }
}

ThreadPool::~ThreadPool() {
  unclaimed_.store(stopMark);
  unclaimed_.notify_all();
  for (std::thread &worker : workers_)
    worker.join();
}

void ThreadPool::parallelFor(int64_t count, int64_t grain, FunctionRef<void(int64_t, int64_t)> body) {
  if (count <= 0)
    return;
  int64_t ranges = std::clamp<int64_t>(count / std::max<int64_t>(grain, 1), 1, threads());
  if (ranges == 1 || busy_.exchange(true, std::memory_order_acquire))
    return body(0, count);

  body_ = body;
  rangeLength_ = count / ranges;
  longerRanges_ = count % ranges;
  unfinished_.store(static_cast<int>(ranges) - 1, std::memory_order_relaxed);
  unclaimed_.store(static_cast<int>(ranges) - 1); // publishes the launch; sequentially consistent for notify_all
  unclaimed_.notify_all();

  runRange(0);
  while (runOneRange()) {
  }
  auto finished = [this] { return unfinished_.load(std::memory_order_acquire) == 0; };
  while (!finished() && !spinUntil(finished))
    std::this_thread::yield(); // a worker lost its core: leave it ours
  busy_.store(false, std::memory_order_release);
}

/// Takes one unclaimed range and runs it; false if there was none. A claim succeeds only while its launch is
/// unfinished, so whatever launch a late worker meets here is complete in body_ and its sizes.
bool ThreadPool::runOneRange() {
  int unclaimed = unclaimed_.load(std::memory_order_acquire);
  do {
    if (unclaimed <= 0)
      return false;
  } while (!unclaimed_.compare_exchange_weak(unclaimed, unclaimed - 1, std::memory_order_acquire));
  runRange(unclaimed);
  unfinished_.fetch_sub(1, std::memory_order_release);
  return true;
}

void ThreadPool::runRange(int64_t range) const {
  int64_t begin = range * rangeLength_ + std::min(range, longerRanges_);
  body_(begin, begin + rangeLength_ + (range < longerRanges_ ? 1 : 0));
}

void ThreadPool::work() {
  auto called = [this] { return unclaimed_.load(std::memory_order_relaxed) != 0; };
  while (unclaimed_.load(std::memory_order_relaxed) != stopMark) {
    if (!runOneRange() && !spinUntil(called))
      unclaimed_.wait(0);
  }
}

} // namespace tapeout::rt
