// The progress of a run for its user: one line on a terminal that is rewritten at most ten times a second, or plain
// lines at growing intervals (steps 1 to 10, 20 to 100, 200, 300...) for a log. Evaluations and the last step always
// stay.
#pragma once

#include "runtime/io/Metrics.h"

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <optional>
#include <string>

namespace tapeout::rt {

/// "step 20/500  loss 2.3451  ETA 0:42  45.2k tokens/s  grad 0.81  lr 3.00e-04  data wait 3%  memory 1.2 GiB"; without
/// `secondsLeft` no ETA.
std::string progressText(const StepMetrics &metrics, std::optional<double> secondsLeft);

class Progress {
public:
  Progress(std::FILE *out, bool terminal) : out_(out), terminal_(terminal) {}
  void report(const StepMetrics &metrics);
  void endLine();
  /// Lines of their own between the reports.
  void note(const std::string &lines);

private:
  using Clock = std::chrono::steady_clock;

  std::FILE *out_; ///< nullptr: say nothing
  bool terminal_;
  bool lineOpen_ = false;
  std::optional<uint64_t> firstStep_;
  Clock::time_point firstTime_;
  Clock::time_point lastTime_;
};

} // namespace tapeout::rt
