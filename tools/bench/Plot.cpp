#include "tools/bench/Report.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

namespace tapeout::bench {
namespace {

struct Quantity {
  const char *name, *unit;
  double scale;
  double (*value)(const Measured &);
};

const std::vector<Quantity> &quantities() {
  static const std::vector<Quantity> all = {
      {"step, median", "ms", 1e3, [](const Measured &m) { return m.seconds.median; }},
      {"kernel launches", "", 1, [](const Measured &m) { return static_cast<double>(m.launches); }},
      {"bytes moved", "MiB", 1.0 / (1 << 20), [](const Measured &m) { return static_cast<double>(m.bytesMoved); }},
      {"activations", "MiB", 1.0 / (1 << 20), [](const Measured &m) { return static_cast<double>(m.arenaPlanned); }},
  };
  return all;
}

std::string escaped(const std::string &text) {
  std::string result;
  for (char c : text)
    result += c == '&' ? "&amp;" : c == '<' ? "&lt;" : c == '>' ? "&gt;" : c == '"' ? "&quot;" : std::string(1, c);
  return result;
}

} // namespace

std::string plotOf(const Report &report) {
  constexpr int kLeft = 140, kBar = 380, kWidth = 640, kThickness = 16, kGap = 14, kTop = 62;
  const int group = kThickness * static_cast<int>(report.measured.size()) + kGap;
  const int height = kTop + group * static_cast<int>(quantities().size());
  const Measured &first = report.measured.front();
  std::string title = escaped(fmt::format("{}: one training step, batch {}, {} threads", first.model, first.batch, first.threads));
  std::string svg = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0} {1}\" width=\"{0}\" height=\"{1}\" role=\"img\">\n"
      "<title>{2}</title>\n"
      "<style>\n"
      "  text {{ font: 12px Helvetica, Arial, sans-serif; fill: #202428; }}\n"
      "  .head {{ font-weight: bold; font-size: 13px; }}\n"
      "  .bar0 {{ fill: #8a94a0; }} .bar1 {{ fill: #2f68a8; }}\n"
      "  @media (prefers-color-scheme: dark) {{ text {{ fill: #e6e9ec; }} .bar1 {{ fill: #6aa5e8; }} }}\n"
      "</style>\n"
      "<text class=\"head\" x=\"8\" y=\"20\">{2}</text>\n",
      kWidth, height, title);
  for (size_t i = 0; i < report.measured.size(); ++i)
    svg += fmt::format("<rect class=\"bar{}\" x=\"{}\" y=\"32\" width=\"12\" height=\"12\"/><text x=\"{}\" y=\"42\">{}</text>\n", i,
                       kLeft + 180 * i, kLeft + 18 + 180 * i, escaped(report.measured[i].label));
  int y = kTop;
  for (const Quantity &quantity : quantities()) {
    double largest = 0;
    for (const Measured &measured : report.measured)
      largest = std::max(largest, quantity.value(measured));
    svg += fmt::format("<text x=\"8\" y=\"{}\">{}</text>\n", y + (group - kGap) / 2 + 4, quantity.name);
    for (size_t i = 0; i < report.measured.size(); ++i) {
      double value = quantity.value(report.measured[i]), width = largest > 0 ? kBar * value / largest : 0;
      svg += fmt::format("<rect class=\"bar{}\" x=\"{}\" y=\"{}\" width=\"{:.1f}\" height=\"{}\"/>"
                         "<text x=\"{:.1f}\" y=\"{}\">{:.4g} {}</text>\n",
                         i, kLeft, y, width, kThickness - 2, kLeft + width + 6, y + kThickness - 5, value * quantity.scale,
                         quantity.unit);
      y += kThickness;
    }
    y += kGap;
  }
  return svg + "</svg>\n";
}

} // namespace tapeout::bench
