#include "tools/bench/Report.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <functional>
#include <iterator>

namespace tapeout::bench {
namespace {

std::string duration(double seconds) {
  if (seconds < 1e-3)
    return fmt::format("{:.1f} µs", seconds * 1e6);
  return seconds < 1 ? fmt::format("{:.2f} ms", seconds * 1e3) : fmt::format("{:.3f} s", seconds);
}

std::string mebibytes(double bytes) { return fmt::format("{:.2f} MiB", bytes / (1 << 20)); }
std::string percent(double share) { return fmt::format("{:.1f}%", 100 * share); }

/// Columns are aligned by characters: "µ" takes two bytes.
std::string padded(const std::string &text, size_t width) {
  size_t characters = 0;
  for (unsigned char byte : text)
    characters += (byte & 0xc0) != 0x80;
  return text + std::string(characters < width ? width - characters : 1, ' ');
}

class Table {
public:
  explicit Table(const Report &report) : report_(report) {}

  /// One cell per executable; with two of them, a last one with the quotient of their values.
  void row(const std::string &name, const std::function<std::string(const Measured &)> &cell,
           const std::function<double(const Measured &)> &value = nullptr) {
    text_ += padded(name, 24);
    for (const Measured &measured : report_.measured)
      text_ += padded(cell(measured), 24);
    if (value && report_.measured.size() == 2 && value(report_.measured[1]) > 0)
      text_ += fmt::format("{:.2f}x", value(report_.measured[0]) / value(report_.measured[1]));
    while (text_.back() == ' ')
      text_.pop_back();
    text_ += '\n';
  }
  template <typename... Arguments> void line(fmt::format_string<Arguments...> format, Arguments &&...arguments) {
    text_ += fmt::format(format, std::forward<Arguments>(arguments)...) + "\n";
  }
  std::string take() { return std::move(text_); }

private:
  const Report &report_;
  std::string text_;
};

nlohmann::json toJson(const Statistics &statistics) {
  return {{"median", statistics.median}, {"min", statistics.least}, {"p10", statistics.p10}, {"p90", statistics.p90}};
}

} // namespace

std::string tableOf(const Report &report) {
  Table table(report);
  const Measured &first = report.measured.front();
  bool two = report.measured.size() == 2;
  table.line("{}: batch {}, {} threads, {}; {} steps each, {}in blocks of {}", first.model, first.batch, first.threads,
             first.isa, report.steps, two ? "alternating " : "", report.blockSteps);
  table.line("{}; roofs: memory {:.1f} GB/s, arithmetic {:.0f} GFLOP/s\n", report.processor,
             report.roofs.bytesPerSecond / 1e9, report.roofs.flopsPerSecond / 1e9);
  table.row("", [](const Measured &m) { return m.label; });
  table.row("step, median", [](const Measured &m) { return duration(m.seconds.median); },
            [](const Measured &m) { return m.seconds.median; });
  table.row("  fastest", [](const Measured &m) { return duration(m.seconds.least); },
            [](const Measured &m) { return m.seconds.least; });
  table.row("  10% to 90%",
            [](const Measured &m) { return fmt::format("{} - {}", duration(m.seconds.p10), duration(m.seconds.p90)); });
  table.row("processor time, median", [](const Measured &m) { return duration(m.processorSeconds.median); },
            [](const Measured &m) { return m.processorSeconds.median; });
  table.row("kernel launches", [](const Measured &m) { return std::to_string(m.launches); },
            [](const Measured &m) { return static_cast<double>(m.launches); });
  table.row("matrix products", [](const Measured &m) { return std::to_string(m.matrixProducts); });
  if (report.measured.front().attentions > 0)
    table.row("attentions", [](const Measured &m) { return std::to_string(m.attentions); });
  if (report.measured.front().windows > 0)
    table.row("convolutions, poolings", [](const Measured &m) { return std::to_string(m.windows); });
  table.row("bytes moved (model)", [](const Measured &m) { return mebibytes(static_cast<double>(m.bytesMoved)); },
            [](const Measured &m) { return static_cast<double>(m.bytesMoved); });
  if (report.noCounter.empty())
    table.row("bytes missed (counted)", [](const Measured &m) { return mebibytes(m.bytesMissed.value_or(0)); },
              [](const Measured &m) { return m.bytesMissed.value_or(0); });
  table.row("activations, planned", [](const Measured &m) { return mebibytes(static_cast<double>(m.arenaPlanned)); },
            [](const Measured &m) { return static_cast<double>(m.arenaPlanned); });
  table.row("activations, touched", [](const Measured &m) { return mebibytes(static_cast<double>(m.arenaResident)); },
            [](const Measured &m) { return static_cast<double>(m.arenaResident); });
  table.row("process, peak", [](const Measured &m) { return mebibytes(static_cast<double>(m.processPeak)); },
            [](const Measured &m) { return static_cast<double>(m.processPeak); });
  table.row("of the memory roof", [](const Measured &m) { return percent(m.memoryRoofShare); });
  table.row("of the arithmetic roof", [](const Measured &m) { return percent(m.arithmeticRoofShare); });
  table.row("loss at the end", [](const Measured &m) { return fmt::format("{:.9g}", m.loss); });
  if (report.ratio)
    table.line("\n{} / {}: {:.2f} (10% to 90% of the pairs of blocks: {:.2f} - {:.2f})", report.measured[0].label,
               report.measured[1].label, report.ratio->median, report.ratio->p10, report.ratio->p90);
  if (!report.noCounter.empty())
    table.line("no row for bytes by hardware counters: {}", report.noCounter);
  return table.take();
}

std::string jsonOf(const Report &report) {
  nlohmann::json executables = nlohmann::json::array();
  for (const Measured &measured : report.measured) {
    nlohmann::json entry = {{"label", measured.label},
                            {"seconds", toJson(measured.seconds)},
                            {"processor_seconds", toJson(measured.processorSeconds)},
                            {"launches", measured.launches},
                            {"matrix_products", measured.matrixProducts},
                            {"attentions", measured.attentions},
                            {"windows", measured.windows},
                            {"copies", measured.copies},
                            {"flops", measured.flops},
                            {"bytes_moved", measured.bytesMoved},
                            {"arena_planned", measured.arenaPlanned},
                            {"arena_resident", measured.arenaResident},
                            {"process_peak", measured.processPeak},
                            {"memory_roof_share", measured.memoryRoofShare},
                            {"arithmetic_roof_share", measured.arithmeticRoofShare},
                            {"loss", measured.loss}};
    if (measured.bytesMissed)
      entry["bytes_missed"] = *measured.bytesMissed;
    executables.push_back(std::move(entry));
  }
  const Measured &first = report.measured.front();
  nlohmann::json result = {
      {"model", first.model},
      {"batch", first.batch},
      {"threads", first.threads},
      {"isa", first.isa},
      {"processor", report.processor},
      {"steps", report.steps},
      {"block_steps", report.blockSteps},
      {"roofs",
       {{"bytes_per_second", report.roofs.bytesPerSecond}, {"flops_per_second", report.roofs.flopsPerSecond}}},
      {"executables", std::move(executables)}};
  if (report.ratio)
    result["ratio"] = toJson(*report.ratio);
  if (!report.noCounter.empty())
    result["no_counter"] = report.noCounter;
  return result.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

} // namespace tapeout::bench
