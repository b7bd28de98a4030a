// The rules of a well-formed graph, checked when a model file is written and, since files are hostile, when it is read.
#pragma once

#include "frontend/Graph.h"
#include "runtime/base/Status.h"

namespace tapeout::frontend {

// Limits that no honest model meets. They bound the time and memory a hostile model file can cost.
namespace limits {
constexpr size_t kNameBytes = 256;
constexpr size_t kRank = 8;
constexpr size_t kTables = 1 << 20;            ///< inputs, parameters, nodes and attributes together; also values
constexpr size_t kNamedTensors = 1 << 16;      ///< inputs and parameters
constexpr size_t kAttributes = 64;             ///< of one node
constexpr uint64_t kContentBytes = 1ull << 27; ///< names, shapes, operands and attribute values together
constexpr uint64_t kFileBytes = 2 * kContentBytes;
constexpr uint64_t kTensorBytes = 1ull << 48; ///< one input (at batch 1), and all parameters together
} // namespace limits

/// Ok, or BadData with one clause that names the place and the reason ("node 3 ('blocks.0') uses value 40, ...");
/// the caller adds the file and the remedy. Checked are the graph's structure and text, not the rules of each op.
Status verifyGraph(const Graph &graph);

} // namespace tapeout::frontend
