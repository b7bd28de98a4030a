// --trace: when each instruction of some steps ran, in the Chrome trace format (chrome://tracing, ui.perfetto.dev).
#pragma once

#include "runtime/Executor.h"
#include "runtime/base/Status.h"

#include <string>
#include <vector>

namespace tapeout::rt {

struct TracedStep {
  uint64_t step;
  std::vector<InstructionTime> times;
};

/// One event per instruction, named by its source layer, with category (phase), kernel, flops and bytes moved. Times
/// are in microseconds from the first instruction. Written atomically; errors: those of AtomicFile.h.
Status writeTrace(const Plan &plan, const std::vector<TracedStep> &steps, const std::string &path);

/// "forward", "loss", "backward", "optimizer" or "other": the phases of runtime/plan.fbs.
const char *phaseName(uint8_t phase);
/// The kernel's symbol, "matmul m x n x k", a window's function and sizes, or "copy".
std::string instructionName(const Plan &plan, const plan::Instruction &instruction);

} // namespace tapeout::rt
