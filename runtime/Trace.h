// --trace: when each kernel of some steps ran, in the Chrome trace format (chrome://tracing, ui.perfetto.dev), and as a table.
#pragma once

#include "runtime/Recording.h"
#include "runtime/base/Status.h"

#include <optional>
#include <string>

namespace tapeout::rt {

/// One run of the training step for each entry.
struct TracedSteps {
  uint64_t first; ///< number of the first step; the others follow
  Recording recording;
};

/// Writes two files. `path`: one event per kernel, named by its source layer, with category (phase), kernel, instruction,
/// flops and bytes moved, both with the first kernel of an instruction only. Times are in microseconds from the first kernel.
/// `path`.txt: traceTable. Written atomically; errors: those of AtomicFile.h.
Status writeTrace(const Plan &plan, const TracedSteps &steps, const std::string &path);

/// "forward", "loss", "backward", "optimizer" or "other": the phases of runtime/plan.fbs.
const char *phaseName(uint8_t phase);
/// The kernel's symbol, "matmul m x n x k", a window's function and sizes, or "copy".
std::string instructionName(const Plan &plan, const plan::Instruction &instruction);
/// Of a matrix product or attention: the type of its operands.
std::optional<ElementType> productType(const Plan &plan, const plan::Instruction &instruction);

} // namespace tapeout::rt
