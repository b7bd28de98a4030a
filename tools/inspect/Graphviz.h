// Graphviz as a child process: it can run for minutes, or crash, on graphs it does not like.
#pragma once

#include "runtime/base/Status.h"

#include <chrono>
#include <string>

namespace tapeout::inspect {

/// DOT to SVG by `dot -Tsvg`, killed after `limit`. Errors: Unavailable, if Graphviz is not installed; Failed.
Result<std::string> renderSvg(const std::string &dot, std::chrono::milliseconds limit = std::chrono::seconds(20),
                              const std::string &program = "dot");

} // namespace tapeout::inspect
