// An executor for the fake GPU.
#pragma once

#include "runtime/State.h"
#include "runtime/device/cuda/CudaExecutor.h"
#include "tests/runtime/TestPlans.h"
#include "tests/runtime/cuda/FakeCuda.h"

#include <gtest/gtest.h>

namespace tapeout::rt::test {

/// The libraries of the fake, which lies in this process.
CudaLibraries fakeLibraries();

/// A plan with its executor on a fresh fake GPU. `executor` is null when `status` is an error.
struct CudaMachine {
  explicit CudaMachine(const plan::PlanT &source, const ExecutorOptions &options = {.threads = 1});
  uint32_t slot(const char *name) const;
  Status fillInputs();
  Status step() { return executor->run(*plan.program("step")); }
  std::vector<float> floats(const char *name);
  double loss(unsigned ago = 0) { return *readOutput(*executor, *plan.program("step"), "loss", ago); }

  Plan plan;
  Status status;
  std::unique_ptr<CudaExecutor> executor;
};

} // namespace tapeout::rt::test
