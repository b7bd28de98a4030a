// What all simplifications of a graph are made of.
#pragma once

#include "tools/inspect/Graph.h"

namespace tapeout::inspect {

/// The parts of a layer's name: "blocks", "0", "attn".
std::vector<std::string> splitLayer(const std::string &layer);
/// The parts from `begin` to before `end`, or to the last one, as a name.
std::string joinLayer(const std::vector<std::string> &parts, size_t begin, size_t end);

/// Whether a node computes something, or is a word on those that do.
bool isCompute(const Node &node);
bool isWord(const Node &node);

/// Every node as what it is drawn as: itself, another node or, with kGone, nothing.
using Targets = std::vector<size_t>;
inline constexpr size_t kGone = static_cast<size_t>(-1);
/// All nodes as themselves.
Targets drawnAsThemselves(const Graph &graph);
/// Keeps the nodes that are drawn as themselves and moves the edges of the others to them. Equal edges become one.
void merge(Graph &graph, const Targets &target);

/// Appends what is not in the list yet.
void appendNew(std::vector<std::string> &list, const std::vector<std::string> &more);
/// Adds the costs and results of a node to the one that is drawn for both.
void absorb(Node &into, const Node &node);

} // namespace tapeout::inspect
