// Small complete plans with hand-written kernels, and the files that a run of them needs.
#pragma once

#include "runtime/Plan.h"
#include "runtime/plan_generated.h"

#include <cstdint>
#include <string>
#include <vector>

namespace tapeout::rt::test {

/// Linear regression, y = x w with 16 samples of 8 numbers: SGD with momentum, programs `step` and `evaluate`.
plan::PlanT regressionPlan();
/// A language model of bytes with a table of 256 x 256 logits and a context of 8: program `predict`.
plan::PlanT bigramPlan();
/// regressionPlan for cuda: kernels in one module with cubins for sm_80, sm_86 and sm_90 that only a fake driver takes, and PTX.
plan::PlanT cudaRegressionPlan();
/// An empty ELF file for NVIDIA GPUs; the byte behind its header is `architecture`.
std::vector<uint8_t> emptyCubin(uint8_t architecture);

std::vector<uint8_t> serialize(const plan::PlanT &plan);
/// The kernels of both plans, an ELF shared object.
std::vector<uint8_t> kernelBytes();

/// Index of the slot called `name`.
uint32_t slotIndex(const plan::PlanT &plan, const std::string &name);

/// A fresh folder that is removed with the object.
class TemporaryFolder {
public:
  TemporaryFolder();
  ~TemporaryFolder();
  std::string file(const std::string &name) const { return path_ + "/" + name; }

private:
  std::string path_;
};

void writeFile(const std::string &path, const std::string &bytes);
std::string readText(const std::string &path);
/// A float32 .npy file.
void writeNpy(const std::string &path, const std::vector<int64_t> &shape, const std::vector<float> &values);
/// x.npy and y.npy with y = x [1, 2, ... 8]; `samples` of them.
void writeRegressionData(const TemporaryFolder &folder, int64_t samples);
/// A package without runner: the plan and the kernels.
std::string writeTestPackage(const TemporaryFolder &folder, const plan::PlanT &plan);

} // namespace tapeout::rt::test
