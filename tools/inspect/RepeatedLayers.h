// Layers of equal structure, as `blocks.0` to `blocks.11`, drawn once.
#pragma once

#include "tools/inspect/Graph.h"

namespace tapeout::inspect {

/// Layers are of one family if their names differ in one number only; `level` says in which: 0 is the outermost.
/// Neighbours of a family with the same ops in the same order become the first of them, each phase for itself.
void collapseRepeatedLayers(Graph &graph, size_t level);

} // namespace tapeout::inspect
