// The command line of a training executable. Which hyperparameter options exist depends on the plan it carries.
#pragma once

#include "runtime/Plan.h"
#include "runtime/State.h"
#include "runtime/base/Status.h"
#include "runtime/device/cpu/CpuIsa.h"
#include "runtime/io/DataLoader.h"

#include <cstdint>
#include <optional>
#include <string>
#include <variant>

namespace tapeout::runner {

struct Options {
  std::string data, labels;
  std::optional<uint64_t> steps;
  rt::HyperparameterValues hyperparameters; ///< those given on the command line
  std::optional<uint64_t> seed;
  int threads = 0; ///< 0: all
  std::optional<rt::CpuIsa> isa; ///< none: the widest there is

  std::string logDirectory;
  std::string checkpointDirectory;
  uint64_t checkpointEvery = 0;
  int keep = 3;
  bool resume = false;
  std::string init, exportPath;
  std::string evalData, evalLabels;
  rt::ImageNormalisation images;
  int dataThreads = 0; ///< 0: one per processor
  uint64_t evalEvery = 0;

  std::optional<std::string> generate; ///< the prompt
  uint64_t tokens = 100;
  double temperature = 1;
  int64_t topK = 0;

  std::string trace;
  uint64_t traceFrom = 0; ///< 0: from the second step of this run
  bool describe = false;
  bool bench = false; ///< see runtime/Bench.h
  bool checkMemory = false;
};

/// The file to read plan, kernels and weights from: the value of --plan, else the running executable.
std::string packagePath(int argc, const char *const *argv);

/// The options, or the text to print for --help. Errors: Usage (2) for unknown or contradicting options, BadConfig (78)
/// for values out of range.
Result<std::variant<Options, std::string>> parseOptions(int argc, const char *const *argv, const rt::Plan &plan);

} // namespace tapeout::runner
