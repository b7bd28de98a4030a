// What a run tells about itself: a progress line, metrics.jsonl and a TensorBoard event file.
//
// metrics.jsonl: one JSON object per step, keys step, loss, grad_norm, lr, tokens_per_s (or samples_per_s), data_wait,
// loss_scale and skipped_steps where the loss is scaled, and eval_loss when there is one; numbers that are not finite are null. Every line is written whole, so that a killed
// run leaves complete lines; a resumed run first removes the lines after the step it resumes from.
#pragma once

#include "runtime/base/Status.h"

#include <cstdint>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>

namespace tapeout::rt {

struct StepMetrics {
  uint64_t step = 0;       ///< 1 for the first step
  uint64_t totalSteps = 0; ///< of the whole run
  double loss = 0;
  double gradNorm = 0;
  double lr = 0;
  std::optional<double> lossScale; ///< where the loss is scaled
  uint64_t skippedSteps = 0;       ///< so far, because a gradient was not finite
  double throughput = 0;       ///< `unit` per second
  std::string unit = "tokens"; ///< "tokens" or "samples"
  double dataWaitShare = 0;    ///< of the step's time, 0 to 1
  uint64_t memoryBytes = 0;
  std::optional<double> evalLoss;
};

struct MetricsOptions {
  std::string logDirectory; ///< made when missing; empty: no files
  bool terminal = false;    ///< one line that is rewritten; else plain lines at growing intervals
  std::FILE *out = stdout;  ///< takes the progress; nullptr: none (ranks other than 0)
  uint64_t resumedStep = 0; ///< steps done before this run; 0: a fresh run, which replaces metrics.jsonl
};

class MetricsWriter {
public:
  /// Error: CannotCreate (73) for the log directory and its files.
  static Result<std::unique_ptr<MetricsWriter>> create(const MetricsOptions &options);
  ~MetricsWriter();
  MetricsWriter(const MetricsWriter &) = delete;
  MetricsWriter &operator=(const MetricsWriter &) = delete;

  /// Reports a finished step. Error: WriteFailed (74).
  Status record(const StepMetrics &metrics);
  /// Ends the progress line, so that other output starts on a line of its own; record() may follow.
  void endLine();
  /// Prints lines between the reports.
  void note(const std::string &lines);

private:
  struct State;
  explicit MetricsWriter(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

} // namespace tapeout::rt
