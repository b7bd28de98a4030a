#include "runtime/Executor.h"

#include "runtime/device/cpu/CpuExecutor.h"
#include "runtime/device/cuda/CudaExecutor.h"

#include <algorithm>

namespace tapeout::rt {

constexpr int kMaxThreads = 1024;

Executor::Executor(const Plan &plan, int threads)
    : plan_(plan), pool_(std::clamp(threads > 0 ? threads : usableProcessors(), 1, kMaxThreads)) {}

template <typename Device> static Result<std::unique_ptr<Executor>> widen(Result<std::unique_ptr<Device>> executor) {
  if (!executor.isOk())
    return executor.status();
  return std::unique_ptr<Executor>(std::move(*executor));
}

Result<std::unique_ptr<Executor>> createExecutor(const Plan &plan, std::span<const uint8_t> cpuKernels,
                                                 const ExecutorOptions &options) {
  if (plan.root().target()->string_view() == "cpu")
    return widen(CpuExecutor::create(plan, cpuKernels, options));
  if (options.isa)
    return Status::error(ExitCode::BadConfig, "--isa chooses among kernels for the processor, but this executable has kernels "
                                              "for the GPU; leave the option out");
  Result<CudaLibraries> libraries = CudaLibraries::open(plan);
  if (!libraries.isOk())
    return libraries.status();
  return widen(CudaExecutor::create(plan, *libraries, options));
}

} // namespace tapeout::rt
