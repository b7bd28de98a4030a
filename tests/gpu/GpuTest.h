// What the parts of tapeout-gpu-test share.
#pragma once

#include "runtime/Plan.h"
#include "runtime/State.h"
#include "runtime/device/cuda/CudaExecutor.h"

#include <fmt/format.h>

#include <cstdio>
#include <optional>
#include <string>
#include <vector>

namespace tapeout::rt::test {

/// The table of results.
class Report {
public:
  template <typename... Args>
  void check(bool good, const std::string &name, fmt::format_string<Args...> detail, Args &&...args) {
    failures_ += !good;
    fmt::print("{}  {:<44} {}\n", good ? "pass" : "FAIL", name, fmt::format(detail, std::forward<Args>(args)...));
    std::fflush(stdout);
  }
  void check(const Status &status, const std::string &name) { check(status.isOk(), name, "{}", status.message()); }
  int failures() const { return failures_; }

private:
  int failures_ = 0;
};

/// A plan with its executor on the real GPU; null after a failed check.
struct GpuMachine {
  GpuMachine(Report &report, const plan::PlanT &source, const ExecutorOptions &options = {});
  uint32_t slot(const std::string &name) const;
  std::vector<uint8_t> bytes(const std::string &name);
  std::vector<float> floats(const std::string &name);

  Plan plan;
  std::unique_ptr<CudaExecutor> executor;
};

/// The plan of one program that tests/codegen/gpu has written to `path`, whose inputs and results have the slots of their names.
/// None, after a failed check, where it cannot be read or none of its kernels is named so.
std::optional<plan::PlanT> compiledPlan(Report &report, const std::string &path, const std::string &kernel);

/// Matrix products of every type and layout against sums in double; speed of large ones before and after tuning.
void testProducts(Report &report);
/// Attention of many shapes against sums in double; what dropout keeps; speed by slices.
void testAttention(Report &report);
/// The gradients of attention that are our own kernels, by the plans that gpu-attention-plans has written to `folder`.
void testAttentionKernels(Report &report, const std::string &folder);
/// The products around a GELU that are our own kernels, by the plans that gpu-product-plans has written to `folder`.
void testProductKernels(Report &report, const std::string &folder);
/// A training step with generated-like kernels: queued, captured, traced, checked. `cubin`, when not empty, is the PTX of
/// Kernels.h compiled for the architecture.
void testSteps(Report &report, const std::vector<uint8_t> &cubin, uint32_t architecture);

} // namespace tapeout::rt::test
