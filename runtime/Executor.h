// Runs the programs of a plan on one device. Owns everything that a run needs: memory, kernels, streams, threads.
//
// The host sees slots only through write, clear and read; where they lie is the device's business. Runs may be queued: run
// may return before the program has run, write and read keep the order. One thread uses an executor.
#pragma once

#include "runtime/Plan.h"
#include "runtime/Recording.h"
#include "runtime/base/Status.h"
#include "runtime/device/cpu/CpuIsa.h"
#include "runtime/device/cpu/FunctionRef.h"
#include "runtime/device/cpu/ThreadPool.h"

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace tapeout::rt {

struct ExecutorOptions {
  int threads = 0;                ///< of the host; 0: as many as this process may use
  std::optional<CpuIsa> isa = {}; ///< cpu only; none: the widest the processor has
  bool checkMemory = false;       ///< see MemoryCheck.h
  std::string tuningPath = {};    ///< cuda only: where the choices of library kernels are kept; empty: no choice is measured
};

/// The bytes of a slot as the host can read them: the slot itself, until the next run or write, or a copy.
class SlotBytes {
public:
  explicit SlotBytes(std::span<const uint8_t> slot) : bytes_(slot) {}
  explicit SlotBytes(std::vector<uint8_t> copy) : copy_(std::move(copy)), bytes_(copy_) {}
  SlotBytes(SlotBytes &&other) = default; // a moved vector keeps its bytes where they are
  SlotBytes &operator=(SlotBytes &&other) = default;

  std::span<const uint8_t> get() const { return bytes_; }

private:
  std::vector<uint8_t> copy_;
  std::span<const uint8_t> bytes_;
};

class Executor {
public:
  virtual ~Executor() = default;
  Executor(const Executor &) = delete;
  Executor &operator=(const Executor &) = delete;

  /// Runs one program of the plan, or queues the run. Errors of a queued run may come from a later call.
  virtual Status run(const plan::Program &program) = 0;

  /// Records all runs from now on. Where the device cannot say what a queued run did, runs are not queued meanwhile.
  virtual Status startRecording() = 0;
  /// Waits for the runs since startRecording, and records no more. One entry per run, in their order.
  virtual Result<Recording> finishRecording() = 0;

  /// How many runs before the last one `wait` and `scalar` can ask for; 0 when runs are not queued.
  virtual unsigned runsAhead() const = 0;
  /// Returns when the run `ago` runs before the last one is over.
  virtual Status wait(unsigned ago = 0) = 0;
  /// What that run, which is over, left in an output of one element.
  virtual const void *scalar(uint32_t slot, unsigned ago = 0) const = 0;

  /// The slot becomes what `fill` writes to its argument, which is all bytes of the slot and holds anything before.
  virtual Status write(uint32_t slot, FunctionRef<void(std::span<uint8_t>)> fill) = 0;
  /// All bytes of the slot become zero.
  virtual Status clear(uint32_t slot) = 0;
  /// The bytes of the slot's shape after all runs so far.
  virtual Result<SlotBytes> read(uint32_t slot) = 0;

  /// "2 threads, AVX-512" or the name of the GPU with its library versions, for the start line.
  virtual std::string description() const = 0;
  /// "avx2", "avx512", "sm_90": what kernels are compiled for.
  virtual std::string architecture() const = 0;
  /// Bytes of the device that one step works in, for the progress line.
  virtual uint64_t memoryBytes() const = 0;
  /// Bytes of the arena that are in memory.
  virtual uint64_t arenaResidentBytes() const = 0;
  /// End of the highest arena slot that any program uses; a tight plan has arena_bytes equal to it.
  virtual uint64_t arenaHighWater() const = 0;

  const Plan &plan() const { return plan_; }
  /// Threads of the host.
  ThreadPool &pool() { return pool_; }
  const ThreadPool &pool() const { return pool_; }

protected:
  Executor(const Plan &plan, int threads);

private:
  const Plan &plan_;
  ThreadPool pool_;
};

/// The executor for the plan's target. `plan` outlives it. `cpuKernels` is an ELF shared object, empty for a plan without
/// such kernels. Errors: Unavailable (69) for a missing device, library, driver or too little memory, found before
/// anything is allocated; BadConfig for an option that the target does not have.
Result<std::unique_ptr<Executor>> createExecutor(const Plan &plan, std::span<const uint8_t> cpuKernels,
                                                 const ExecutorOptions &options);

} // namespace tapeout::rt
