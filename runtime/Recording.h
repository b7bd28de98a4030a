// What a device did during some runs: when each kernel ran, and for which instruction.
#pragma once

#include "runtime/Plan.h"
#include "runtime/base/ElementType.h"

#include <chrono>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace tapeout::rt {

/// A kernel, copy or fill that ran for an instruction, or the instruction as a whole where no more was seen.
struct Activity {
  const plan::Instruction *instruction;
  std::string kernel; ///< what its library or module calls it; empty where only the instruction was seen
  std::chrono::steady_clock::time_point begin, end; ///< times of one recording can be compared, no others
};

struct RecordedRun {
  const plan::Program *program;
  std::vector<Activity> activities; ///< in the order of instructions; some library calls launch several kernels
};

/// Whether the graphs that were replayed hold everything. Numbers of all recorded runs together.
struct GraphCheck {
  uint64_t inside = 0;    ///< kernels, copies and fills that graphs launched
  uint64_t outside = 0;   ///< kernels that ran outside of graphs
  uint64_t hostReads = 0; ///< copies to the host between the begin and the end of a graph
};

/// What the device can do at most, measured; 0 or missing where it was not.
struct Roofs {
  double bytesPerSecond = 0;                      ///< of a copy on the device, read and written bytes together
  std::map<ElementType, double> productsPerSecond; ///< floating-point operations of a large matrix product, by operand type
};

struct Recording {
  std::string means; ///< by which it was made, and why by no better one: "CUPTI 13.0, while graphs were replayed"
  std::vector<RecordedRun> runs;
  std::optional<GraphCheck> graphs; ///< none where no graph was replayed
  Roofs roofs;
};

} // namespace tapeout::rt
