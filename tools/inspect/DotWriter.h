// A graph as DOT, the language of Graphviz.
#pragma once

#include "tools/inspect/Graph.h"

#include <string>

namespace tapeout::inspect {

/// Columns for the forward pass (downwards), the backward pass (upwards, beside the layers it belongs to) and the
/// optimizer; layers as nested boxes; kernels as boxes around their ops, unless these are too many; colours by phase,
/// with a legend. The same graph gives the same text.
std::string writeDot(const Graph &graph);

/// Text for an HTML-like label: markup escaped, control characters and broken UTF-8 replaced, cut to `limit`
/// characters.
std::string escapeLabel(const std::string &text, size_t limit = 60);

} // namespace tapeout::inspect
