#include "runtime/io/Progress.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace tapeout::rt {

constexpr auto kUpdateInterval = std::chrono::milliseconds(100);
constexpr uint64_t kLargestStepInterval = 100;

/// 45,210 -> "45.2k".
static std::string scaled(double value) {
  constexpr std::string_view kSuffixes[] = {"", "k", "M", "G", "T"};
  size_t suffix = 0;
  for (; value >= 999.95 && suffix + 1 < std::size(kSuffixes); ++suffix)
    value /= 1000;
  return fmt::format("{:.{}f}{}", value, value < 100 || suffix > 0 ? 1 : 0, kSuffixes[suffix]);
}

static std::string memoryText(uint64_t bytes) {
  constexpr std::string_view kUnits[] = {"KiB", "MiB", "GiB", "TiB"};
  double value = static_cast<double>(bytes) / 1024;
  size_t unit = 0;
  for (; value >= 1023.95 && unit + 1 < std::size(kUnits); ++unit)
    value /= 1024;
  return fmt::format("{:.1f} {}", value, kUnits[unit]);
}

static std::string durationText(double seconds) {
  auto total = static_cast<uint64_t>(std::clamp(seconds, 0.0, 1e9) + 0.5);
  if (total < 3600)
    return fmt::format("{}:{:02}", total / 60, total % 60);
  return fmt::format("{}:{:02}:{:02}", total / 3600, total / 60 % 60, total % 60);
}

std::string progressText(const StepMetrics &metrics, std::optional<double> secondsLeft) {
  std::string text = fmt::format("step {}/{}  loss {:.4f}", metrics.step, metrics.totalSteps, metrics.loss);
  if (metrics.evalLoss)
    text += fmt::format("  eval loss {:.4f}", *metrics.evalLoss);
  if (secondsLeft)
    text += fmt::format("  ETA {}", durationText(*secondsLeft));
  text += fmt::format("  {} {}/s  grad {:.3g}  lr {:.2e}", scaled(metrics.throughput), metrics.unit, metrics.gradNorm,
                      metrics.lr);
  if (metrics.lossScale)
    text += fmt::format("  scale {:g}, {} skipped", *metrics.lossScale, metrics.skippedSteps);
  text += fmt::format("  data wait {:.0f}%  memory {}", metrics.dataWaitShare * 100, memoryText(metrics.memoryBytes));
  return text;
}

/// 1, 10, 100 for steps up to 10, 100 and beyond.
static uint64_t stepInterval(uint64_t step) {
  uint64_t interval = 1;
  while (step > interval * 10 && interval < kLargestStepInterval)
    interval *= 10;
  return interval;
}

void Progress::report(const StepMetrics &metrics) {
  Clock::time_point now = Clock::now();
  bool first = !firstStep_;
  if (first) {
    firstStep_ = metrics.step;
    firstTime_ = now;
  }
  bool stays = metrics.evalLoss || metrics.step >= metrics.totalSteps;
  bool due = terminal_ ? now - lastTime_ >= kUpdateInterval : metrics.step % stepInterval(metrics.step) == 0;
  if (!out_ || !(first || stays || due))
    return;
  lastTime_ = now;

  std::optional<double> secondsLeft;
  if (metrics.step > *firstStep_ && metrics.step < metrics.totalSteps) {
    double elapsed = std::chrono::duration<double>(now - firstTime_).count();
    secondsLeft = elapsed / static_cast<double>(metrics.step - *firstStep_) *
                  static_cast<double>(metrics.totalSteps - metrics.step);
  }
  std::string text = progressText(metrics, secondsLeft);
  // On a terminal: clear the line, and cut at the right edge, since a wrapped line could not be rewritten.
  std::string line = terminal_ ? fmt::format("\r\x1b[K\x1b[?7l{}\x1b[?7h", text) : text;
  std::fputs(line.c_str(), out_);
  lineOpen_ = true;
  if (stays || !terminal_)
    endLine();
  std::fflush(out_);
}

void Progress::endLine() {
  if (lineOpen_)
    std::fputc('\n', out_);
  lineOpen_ = false;
}

void Progress::note(const std::string &lines) {
  if (!out_)
    return;
  endLine();
  std::fputs((lines + "\n").c_str(), out_);
  std::fflush(out_);
}

} // namespace tapeout::rt
