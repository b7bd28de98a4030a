// Makes a graph small enough to be looked at.
#pragma once

#include "tools/inspect/Graph.h"

namespace tapeout::inspect {

/// More nodes than this are no picture any more, and Graphviz becomes slow.
inline constexpr size_t kNodeLimit = 150;

/// Draws movements, arguments, constants, saved activations and gradients as words on edges and nodes; layers of equal
/// structure once; equal ops of the optimizer once. Where more than `nodeLimit` nodes are left, connected small ops of
/// a layer become one node, and then layers lose their inner structure, level by level.
void simplify(Graph &graph, size_t nodeLimit = kNodeLimit);

} // namespace tapeout::inspect
