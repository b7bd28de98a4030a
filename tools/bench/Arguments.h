// The options of a comparison, shared by `tapeout bench` and tapeout-bench.
#pragma once

#include "runtime/base/Status.h"
#include "tools/bench/Bench.h"

#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace tapeout::bench {

struct Arguments {
  MeasureOptions measure;
  std::string json, plot; ///< files; json "-": the standard output instead of the table

  void addTo(CLI::App &command);
};

/// Measures and writes what the arguments ask for.
Status compare(const std::vector<Subject> &subjects, const Arguments &arguments);

/// Executables under their own names.
std::vector<Subject> subjectsOf(const std::vector<std::string> &paths);

} // namespace tapeout::bench
