// The options of a compile, shared by every command that compiles.
#pragma once

#include "frontend/Graph.h"
#include "runtime/base/Status.h"
#include "tools/driver/Compiler.h"

#include <optional>
#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace tapeout::cli {

struct CompileArguments {
  std::string model; ///< model file
  std::string target = "cpu", optimizer = "adamw", loss, schedule;
  std::optional<int64_t> batch;
  std::vector<std::string> freeze, noDecay;
  std::optional<double> lr, minLrRatio, warmup, weightDecay, beta1, beta2, epsilon, momentum, clip, seed, labelSmoothing;
  unsigned threads = 0;
  bool noFusion = false;
  std::string saveIr;

  void addTo(CLI::App &command);
  /// Reads the model file.
  Result<frontend::Graph> readGraph() const;
  /// Whether `output` would overwrite the model file.
  Status checkOutput(const std::string &output) const;
  /// Checks the values and says which are wrong.
  Result<driver::CompileOptions> options(const frontend::Graph &graph) const;
};

} // namespace tapeout::cli
