#include "runtime/Executor.h"

#include "runtime/device/cpu/CpuExecutor.h"

#include <algorithm>

namespace tapeout::rt {

constexpr int kMaxThreads = 1024;

Executor::Executor(const Plan &plan, int threads)
    : plan_(plan), pool_(std::clamp(threads > 0 ? threads : usableProcessors(), 1, kMaxThreads)) {}

Result<std::unique_ptr<Executor>> createExecutor(const Plan &plan, std::span<const uint8_t> cpuKernels,
                                                 const ExecutorOptions &options) {
  Result<std::unique_ptr<CpuExecutor>> executor = CpuExecutor::create(plan, cpuKernels, options);
  if (!executor.isOk())
    return executor.status();
  return std::unique_ptr<Executor>(std::move(*executor));
}

} // namespace tapeout::rt
