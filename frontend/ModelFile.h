// Reader and writer of model files (frontend/model.fbs). Equal graphs give equal bytes.
#pragma once

#include "frontend/Graph.h"
#include "runtime/base/Status.h"

#include <string>

namespace tapeout::frontend {

/// Written to new files; the reader knows no other yet.
constexpr uint32_t kModelFormatVersion = 1;

/// Atomic. Errors: BadData for a graph that verifyGraph() refuses, CannotCreate and WriteFailed as in AtomicFile.h.
Status writeModel(const Graph &graph, const std::string &path);

/// A graph that verifyGraph() accepts and whose weights file, if it names one, has every External tensor with the
/// parameter's type and shape. Errors: MissingInput, BadData.
Result<Graph> readModel(const std::string &path);

} // namespace tapeout::frontend
