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

/// What a compile starts from.
struct CompileInput {
  frontend::Graph graph;
  driver::CompileOptions options;
};

struct CompileArguments {
  std::string model; ///< model file
  std::string precision = "fp32", ampLevel, lossScale;
  std::vector<std::string> precisions = {"fp32", "bf16", "fp16"}; ///< that --precision takes; fp64: interpret only
  std::string target, optimizer = "adamw", loss, schedule;
  std::optional<int64_t> batch;
  std::vector<std::string> freeze, noDecay, keepFp32;
  std::optional<double> lr, minLrRatio, warmup, weightDecay, beta1, beta2, epsilon, momentum, clip, seed, labelSmoothing;
  unsigned threads = 0;
  bool noFusion = false;
  std::string deterministic = "on", lossChunks = "auto";
  std::vector<std::string> skipped;
  std::string saveIr;

  void addTo(CLI::App &command);
  /// Reads the model file, checks the values and says which are wrong.
  Result<CompileInput> load() const;
  /// Whether `output` would overwrite the model file.
  Status checkOutput(const std::string &output) const;

  /// Checks the option of that name and takes it over.
  Status setDeterministic(driver::CompileOptions &options) const;
  /// Checks the options of mixed precision and takes them over.
  Status setPrecision(TrainingOptions &training) const;

private:
  Result<driver::CompileOptions> options(const frontend::Graph &graph) const;
};

/// What a finished compile can tell about itself.
struct CompileSummary {
  int64_t batch = 0;
  double passSeconds = 0, kernelSeconds = 0;
  int64_t persistentBytes = 0; ///< parameters and state
  int64_t arenaBytes = 0;      ///< activations
  std::string target = {};     ///< and what compiled for it
};
/// Compiles the model file into a training executable; without the runner, into what one reads by --plan.
Result<CompileSummary> compileTo(const CompileArguments &arguments, const std::string &output, bool withRunner = true);

} // namespace tapeout::cli
