// The threads that share the work of one training process. Built for hundreds of tiny launches per step: workers spin
// for a few tens of microseconds after each launch and sleep only when none follows.
#pragma once

#include "runtime/device/cpu/FunctionRef.h"

#include <atomic>
#include <cstdint>
#include <thread>
#include <vector>

namespace tapeout::rt {

/// Processors that this process may run on.
int usableProcessors();

class ThreadPool {
public:
  /// `threads` (at least 1) counts the calling thread: 1 starts no worker. If the system refuses a worker, the pool
  /// has fewer.
  explicit ThreadPool(int threads);
  ~ThreadPool();
  ThreadPool(const ThreadPool &) = delete;
  ThreadPool &operator=(const ThreadPool &) = delete;

  int threads() const { return static_cast<int>(workers_.size()) + 1; }

  /// Calls body(begin, end) for contiguous ranges that cover [0, count) once, at most one per thread and each at least
  /// `grain` long (count itself may be shorter), and returns when all are done. Which thread runs which range is not
  /// fixed, and the split depends on the number of threads: results must not depend on either. body must not throw.
  /// Called from inside a body, or while another thread's launch runs, the whole range runs on the caller.
  void parallelFor(int64_t count, int64_t grain, FunctionRef<void(int64_t begin, int64_t end)> body);

private:
  void work();
  bool runOneRange();
  void runRange(int64_t range) const;

  std::vector<std::thread> workers_;

  // The launch in progress. Written while no range is unfinished, read only after a range of it has been claimed.
  FunctionRef<void(int64_t, int64_t)> body_;
  int64_t rangeLength_ = 0;
  int64_t longerRanges_ = 0; // the first ranges are one element longer

  std::atomic<bool> busy_ = false;
  alignas(64) std::atomic<int> unclaimed_ = 0;  // ranges that no thread has taken; stopMark once the pool ends
  alignas(64) std::atomic<int> unfinished_ = 0; // ranges taken by or left for workers that are not done
};

} // namespace tapeout::rt
