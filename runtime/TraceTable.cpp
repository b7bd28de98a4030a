#include "runtime/TraceTable.h"

#include <fmt/format.h>

#include <cxxabi.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <tuple>

namespace tapeout::rt {
namespace {

using Time = std::chrono::steady_clock::time_point;

double millisecondsBetween(Time begin, Time end) { return std::chrono::duration<double, std::milli>(end - begin).count(); }

/// One step as the device saw it; milliseconds.
struct StepTimes {
  Time begin, end;
  double busy = 0; ///< something ran
  std::vector<double> gaps; ///< before each launch but the first: nothing ran

  double span() const { return millisecondsBetween(begin, end); }
  double longestGap() const { return gaps.empty() ? 0 : *std::max_element(gaps.begin(), gaps.end()); }
  double medianGap() const {
    std::vector<double> sorted = gaps;
    std::sort(sorted.begin(), sorted.end());
    return sorted.empty() ? 0 : sorted[sorted.size() / 2];
  }
};

StepTimes timesOf(const RecordedRun &run) {
  StepTimes times;
  for (const Activity &activity : run.activities) {
    if (&activity == &run.activities.front())
      times.begin = times.end = activity.begin;
    else
      times.gaps.push_back(std::max(0.0, millisecondsBetween(times.end, activity.begin)));
    times.busy += std::max(0.0, millisecondsBetween(std::max(times.end, activity.begin), activity.end));
    times.end = std::max(times.end, activity.end);
  }
  return times;
}

/// "blocks.3.attn" and "blocks.4.attn" become "blocks.*.attn".
std::string layerClass(const std::string &layer) {
  std::string result;
  bool partBegins = true;
  for (size_t i = 0; i < layer.size();) {
    size_t digits = 0;
    while (partBegins && i + digits < layer.size() && layer[i + digits] >= '0' && layer[i + digits] <= '9')
      ++digits;
    bool isNumber = digits > 0 && (i + digits == layer.size() || layer[i + digits] == '.');
    result += isNumber ? '*' : layer[i];
    partBegins = !isNumber && layer[i] == '.';
    i += isNumber ? digits : 1;
  }
  return result;
}

struct KernelTotals {
  double seconds = 0;
  uint64_t count = 0;
};
struct Row {
  double seconds = 0, bytes = 0, flops = 0, roofSeconds = 0;
  uint64_t calls = 0;
  std::map<std::string, KernelTotals> kernels; ///< by name

  uint64_t kernelCount() const {
    uint64_t sum = 0;
    for (const auto &[name, totals] : kernels)
      sum += totals.count;
    return sum;
  }
};
using RowKey = std::tuple<uint8_t, std::string, std::string>; // phase, instruction, layer class

/// Slowest first.
template <typename Key, typename Value> std::vector<std::pair<Key, Value>> bySeconds(const std::map<Key, Value> &entries) {
  std::vector<std::pair<Key, Value>> sorted(entries.begin(), entries.end());
  std::stable_sort(sorted.begin(), sorted.end(),
                   [](const auto &a, const auto &b) { return a.second.seconds > b.second.seconds; });
  return sorted;
}

/// A library's kernel without parameters and what is special about its template: "cublasLt::splitKreduce_kernel".
std::string shortKernelName(const std::string &kernel) {
  constexpr size_t kMostCharacters = 80;
  int status = 0;
  char *demangled = abi::__cxa_demangle(kernel.c_str(), nullptr, nullptr, &status);
  std::unique_ptr<char, decltype(&std::free)> readable(demangled, std::free);
  std::string name = readable ? readable.get() : kernel;
  if (readable && name.starts_with("void "))
    name.erase(0, 5);
  return name.substr(0, readable ? std::min(name.find_first_of("<("), kMostCharacters) : kMostCharacters);
}

/// What the device would need at its roofs; 0 where they are not known.
double secondsAtRoof(const Plan &plan, const plan::Instruction &instruction, const Roofs &roofs) {
  double seconds = roofs.bytesPerSecond > 0 ? static_cast<double>(instruction.bytes_moved()) / roofs.bytesPerSecond : 0;
  std::optional<ElementType> type = productType(plan, instruction);
  auto rate = type ? roofs.productsPerSecond.find(*type) : roofs.productsPerSecond.end();
  if (rate != roofs.productsPerSecond.end())
    seconds = std::max(seconds, static_cast<double>(instruction.flops()) / rate->second);
  return seconds;
}

std::vector<std::pair<RowKey, Row>> rowsOf(const Plan &plan, const Recording &recording) {
  std::map<RowKey, Row> rows;
  for (const RecordedRun &run : recording.runs) {
    const plan::Instruction *last = nullptr;
    for (const Activity &activity : run.activities) {
      const plan::Instruction &instruction = *activity.instruction;
      const std::string name = instructionName(plan, instruction);
      Row &row = rows[{instruction.phase(), name, layerClass(printable(plan.root().layers()->Get(instruction.layer())))}];
      const double seconds = millisecondsBetween(activity.begin, activity.end) * 1e-3;
      row.seconds += seconds;
      KernelTotals &kernel = row.kernels[activity.kernel.empty() ? name : shortKernelName(activity.kernel)];
      kernel.seconds += seconds;
      ++kernel.count;
      if (std::exchange(last, &instruction) == &instruction)
        continue;
      ++row.calls;
      row.bytes += static_cast<double>(instruction.bytes_moved());
      row.flops += static_cast<double>(instruction.flops());
      row.roofSeconds += secondsAtRoof(plan, instruction, recording.roofs);
    }
  }
  return bySeconds(rows);
}

/// The end of a row's line, and the lines of its kernels.
std::string kernelLines(const Row &row, const std::string &instruction, double steps) {
  if (row.kernels.size() == 1) {
    const std::string &only = row.kernels.begin()->first;
    return only == instruction ? "\n" : fmt::format(" [{}]\n", only);
  }
  std::string text = "\n";
  for (const auto &[name, totals] : bySeconds(row.kernels))
    text += fmt::format("{:>9.3f} {:>6} {:>6} {:>7.0f} {:>6} {:>7} {:>5}    {}\n", totals.seconds / steps * 1e3, "", "",
                        totals.count / steps, "", "", "", name);
  return text;
}

std::string stepLines(const TracedSteps &steps) {
  std::string text = fmt::format("{:>8} {:>9} {:>9} {:>9} {:>8} {:>13} {:>14} {:>13}\n", "step", "ms", "busy ms", "idle ms",
                                 "launches", "median gap us", "longest gap us", "before it ms");
  std::optional<Time> before;
  for (size_t i = 0; i < steps.recording.runs.size(); ++i) {
    const RecordedRun &run = steps.recording.runs[i];
    const StepTimes times = timesOf(run);
    text += fmt::format("{:>8} {:>9.3f} {:>9.3f} {:>9.3f} {:>8} {:>13.2f} {:>14.2f} {:>13}\n", steps.first + i, times.span(),
                        times.busy, times.span() - times.busy, run.activities.size(), times.medianGap() * 1e3,
                        times.longestGap() * 1e3,
                        before ? fmt::format("{:.3f}", millisecondsBetween(*before, times.begin)) : "");
    before = times.end;
  }
  return text;
}

std::string roofLine(const Roofs &roofs) {
  if (roofs.bytesPerSecond == 0)
    return "";
  std::string text = fmt::format("roofs, measured after these steps: copy {:.0f} GB/s", roofs.bytesPerSecond * 1e-9);
  for (auto [type, rate] : roofs.productsPerSecond)
    text += fmt::format(", product in {} {:.0f} TFLOP/s", name(type), rate * 1e-12);
  return text + "\n";
}

} // namespace

std::string traceSummary(const TracedSteps &steps) {
  const Recording &recording = steps.recording;
  const size_t count = recording.runs.size();
  std::string text = count == 1 ? fmt::format("trace of step {}", steps.first)
                                : fmt::format("trace of steps {} to {}", steps.first, steps.first + count - 1);
  text += fmt::format(": by {}\n", recording.means);
  if (recording.graphs)
    text += fmt::format("graph {}: {} kernels and copies per step; {} kernels outside of it, {} copies to the host within it\n",
                        recording.graphs->outside + recording.graphs->hostReads == 0 ? "complete" : "INCOMPLETE",
                        recording.runs.front().activities.size(), recording.graphs->outside, recording.graphs->hostReads);
  double span = 0, busy = 0;
  for (const RecordedRun &run : recording.runs) {
    span += timesOf(run).span() / static_cast<double>(count);
    busy += timesOf(run).busy / static_cast<double>(count);
  }
  return text + fmt::format("step {:.3f} ms: busy {:.3f}, idle between kernels {:.3f}\n", span, busy, span - busy);
}

std::string traceTable(const Plan &plan, const TracedSteps &steps) {
  const auto count = static_cast<double>(steps.recording.runs.size());
  const std::vector<std::pair<RowKey, Row>> rows = rowsOf(plan, steps.recording);
  double total = 0;
  std::map<uint8_t, double> phases;
  for (const auto &[key, row] : rows) {
    total += row.seconds;
    phases[std::get<0>(key)] += row.seconds;
  }
  std::string text = traceSummary(steps) + roofLine(steps.recording.roofs) + "\n" + stepLines(steps) + "\n";
  for (auto [phase, seconds] : phases)
    text += fmt::format("{:>9.3f} ms {}\n", seconds / count * 1e3, phaseName(phase));
  text += fmt::format("\n{:>9} {:>6} {:>6} {:>7} {:>6} {:>7} {:>5}  {}\n", "ms", "share", "calls", "kernels", "GB/s", "TFLOP/s",
                      "roof", "what");
  for (const auto &[key, row] : rows) {
    const auto &[phase, name, layer] = key;
    const double seconds = std::max(row.seconds, 1e-12);
    std::string roof = row.roofSeconds > 0 ? fmt::format("{:.0f}%", 100 * row.roofSeconds / seconds) : "";
    text += fmt::format("{:>9.3f} {:>5.1f}% {:>6.0f} {:>7.0f} {:>6.0f} {:>7.1f} {:>5}  {} {}: {}", row.seconds / count * 1e3,
                        100 * row.seconds / std::max(total, 1e-12), row.calls / count, row.kernelCount() / count,
                        row.bytes / seconds * 1e-9, row.flops / seconds * 1e-12, roof, phaseName(phase), layer, name);
    text += kernelLines(row, name, count);
  }
  return text;
}

} // namespace tapeout::rt
