#include "tools/inspect/DotWriter.h"

#include "tools/inspect/Merge.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace tapeout::inspect {

namespace {

struct Colours {
  const char *fill, *strong, *line, *background;
};

constexpr std::array<Colours, 4> kColours = {{{"#dbe8f8", "#a9c8ee", "#2f68a8", "#f5f9fe"},
                                              {"#fdecc4", "#f9d580", "#a87408", "#fffaee"},
                                              {"#fbdcd3", "#f3ae9c", "#b34428", "#fff7f4"},
                                              {"#d9eedc", "#a5d6ad", "#2f7d40", "#f5fbf6"}}};
constexpr const char *kText = "#202428", *kMuted = "#5b6470", *kSaved = "#7a3b8f", *kNarrow = "#b4560b";

const Colours &coloursOf(Phase phase) { return kColours[static_cast<size_t>(phase)]; }

/// Bytes of the UTF-8 character at `position`, or 0 if there is none.
size_t characterLength(const std::string &text, size_t position) {
  auto byte = [&](size_t i) -> unsigned char { return position + i < text.size() ? text[position + i] : 0; };
  size_t length = byte(0) < 0x80   ? 1
                  : byte(0) < 0xc2 ? 0
                  : byte(0) < 0xe0 ? 2
                  : byte(0) < 0xf0 ? 3
                  : byte(0) < 0xf5 ? 4
                                   : 0;
  for (size_t i = 1; i < length; ++i)
    if ((byte(i) & 0xc0) != 0x80)
      return 0;
  if ((byte(0) == 0xe0 && byte(1) < 0xa0) || (byte(0) == 0xed && byte(1) >= 0xa0) ||
      (byte(0) == 0xf0 && byte(1) < 0x90) || (byte(0) == 0xf4 && byte(1) >= 0x90))
    return 0;
  return length;
}

std::string amount(double value, const char *unit) {
  constexpr const char *kPrefixes[] = {"", "k", "M", "G", "T", "P"};
  size_t prefix = 0;
  for (; value >= 1000 && prefix + 1 < std::size(kPrefixes); ++prefix)
    value /= 1000;
  return fmt::format("{:.3g} {}{}", value, kPrefixes[prefix], unit);
}

/// A list as lines of limited width and number.
std::vector<std::string> wrap(const std::vector<std::string> &items, const char *separator, size_t maxLines) {
  constexpr size_t kWidth = 34;
  std::vector<std::string> lines;
  for (size_t i = 0; i < items.size(); ++i) {
    std::string item = items[i];
    if (!lines.empty() && lines.back().size() + item.size() <= kWidth) {
      lines.back() += separator + item;
      continue;
    }
    if (lines.size() == maxLines) {
      lines.push_back(fmt::format("and {} more", items.size() - i));
      break;
    }
    lines.push_back(item);
  }
  return lines;
}

/// Equal neighbours once, with their number.
std::vector<std::string> countEqual(const std::vector<std::string> &items) {
  std::vector<std::string> result;
  for (size_t i = 0; i < items.size();) {
    size_t next = i;
    while (next < items.size() && items[next] == items[i])
      ++next;
    result.push_back(next - i > 1 ? fmt::format("{} ×{}", items[i], next - i) : items[i]);
    i = next;
  }
  return result;
}

/// With more ops than this, kernels are single nodes that list theirs.
constexpr size_t kPartLimit = 150;

class Writer {
public:
  explicit Writer(const Graph &graph) : graph_(graph) {
    size_t parts = 0;
    for (const Node &node : graph.nodes) {
      totalFlops_ += node.flops;
      parts += node.kind == NodeKind::Kernel ? node.parts.size() : 1;
    }
    opensKernels_ = parts <= kPartLimit;
  }

  std::string write() {
    line("digraph tape {{");
    line("  graph [compound=true, rankdir=TB, nodesep=0.25, ranksep=0.32, newrank=true, fontname=\"Helvetica\", "
         "fontsize=12,");
    line("         labelloc=t, labeljust=l, label=<{}>];", legend());
    line("  node [shape=box, style=\"rounded,filled\", fontname=\"Helvetica\", fontsize=11, margin=\"0.08,0.03\", "
         "height=0.3];");
    line("  edge [fontname=\"Helvetica\", fontsize=9, fontcolor=\"{0}\", color=\"{0}\", arrowsize=0.6];", kMuted);
    for (Phase phase : {Phase::Forward, Phase::Loss, Phase::Backward, Phase::Optimizer})
      writePhase(phase);
    for (const Edge &edge : graph_.edges)
      writeEdge(edge);
    placeLoneNodes();
    line("}}");
    return std::move(text_);
  }

private:
  template <typename... Arguments> void line(fmt::format_string<Arguments...> format, Arguments &&...arguments) {
    text_ += fmt::format(format, std::forward<Arguments>(arguments)...) + "\n";
  }

  std::string legend() const {
    std::string row;
    for (Phase phase : {Phase::Forward, Phase::Loss, Phase::Backward, Phase::Optimizer})
      if (std::any_of(graph_.nodes.begin(), graph_.nodes.end(), [&](const Node &node) { return node.phase == phase; }))
        row += fmt::format("<TD BGCOLOR=\"{}\" COLOR=\"{}\" BORDER=\"1\"> {} </TD>", coloursOf(phase).fill,
                           coloursOf(phase).line, kPhaseNames[static_cast<size_t>(phase)]);
    auto key = [&](const char *sign, const char *meaning) {
      row += fmt::format("<TD><FONT COLOR=\"{}\">{} {}</FONT></TD>", kMuted, sign, meaning);
    };
    auto any = [&](auto test) { return std::any_of(graph_.nodes.begin(), graph_.nodes.end(), test); };
    if (any([](const Node &node) { return node.isSaved; }))
      key("●", "saved for the backward pass");
    if (any([](const Node &node) { return !node.savedReads.empty(); }))
      key("○", "reads a saved value");
    if (any([](const Node &node) { return node.givesGradient; }))
      key("▲", "gradient for the optimizer");
    if (std::any_of(graph_.edges.begin(), graph_.edges.end(), isNarrow))
      row += fmt::format("<TD><FONT COLOR=\"{}\">━ bf16 or f16</FONT></TD>", kNarrow);
    if (any([](const Node &node) { return node.kind == NodeKind::Kernel; }))
      key("", "thick border: one kernel; saves: bytes that its ops would move alone");
    return fmt::format(
        "<TABLE BORDER=\"0\" CELLSPACING=\"6\" CELLPADDING=\"3\"><TR><TD ALIGN=\"LEFT\"><B>{}</B></TD>{}</TR></TABLE>",
        escapeLabel(graph_.title), row);
  }

  void writePhase(Phase phase) {
    std::vector<size_t> nodes;
    for (size_t i = 0; i < graph_.nodes.size(); ++i)
      if (graph_.nodes[i].phase == phase)
        nodes.push_back(i);
    if (nodes.empty())
      return;
    openCluster(phase, "", 1);
    writeLayers(phase, nodes, 0, 1);
    line("  }}");
  }

  void openCluster(Phase phase, const std::string &label, size_t depth) {
    std::string indent(2 * depth, ' ');
    line("{}subgraph cluster_{} {{", indent, clusters_++);
    line("{}  graph [style=\"rounded,filled\", penwidth={}, color=\"{}{}\", fillcolor=\"{}\", fontsize=11, "
         "fontcolor=\"{}\", "
         "margin=8, labelloc=t, labeljust=l, label=<{}>];",
         indent, depth == 1 ? 0 : 1, coloursOf(phase).line, depth == 1 ? "" : "90",
         depth == 1  ? coloursOf(phase).background
         : depth % 2 ? "#ffffff60"
                     : "#ffffff",
         coloursOf(phase).line, label);
  }

  /// Nodes whose names agree in the first `common` parts: those that agree further make a box of their own.
  void writeLayers(Phase phase, const std::vector<size_t> &nodes, size_t common, size_t depth) {
    std::vector<std::pair<std::string, std::vector<size_t>>> groups; // by the next part, in program order
    for (size_t node : nodes) {
      std::vector<std::string> parts = layerParts(graph_.nodes[node]);
      std::string next = common < parts.size() ? parts[common] : "";
      auto group = std::find_if(groups.begin(), groups.end(), [&](const auto &known) { return known.first == next; });
      if (group == groups.end())
        group = groups.insert(groups.end(), {next, {}});
      group->second.push_back(node);
    }
    for (const auto &[name, members] : groups) {
      size_t agreed = agreement(members);
      constexpr size_t kMaxDepth = 4;
      bool isBox =
          !name.empty() && depth < kMaxDepth && (members.size() > 1 || repetition(phase, members[0], common, agreed));
      if (!isBox) {
        for (size_t node : members)
          writeNode(node, common, depth);
        continue;
      }
      // A box ends at a repetition, so that its number of times is read where it applies.
      if (size_t end = repetition(phase, members[0], common, agreed))
        agreed = end;
      openCluster(phase, boxLabel(phase, members[0], common, agreed), depth + 1);
      writeLayers(phase, members, agreed, depth + 1);
      line("{}}}", std::string(2 * depth + 2, ' '));
    }
  }

  static std::vector<std::string> layerParts(const Node &node) {
    if (node.kind == NodeKind::Input || node.layer.empty())
      return {};
    return splitLayer(node.layer);
  }

  size_t agreement(const std::vector<size_t> &nodes) const {
    std::vector<std::string> parts = layerParts(graph_.nodes[nodes[0]]);
    size_t agreed = parts.size();
    for (size_t node : nodes) {
      std::vector<std::string> others = layerParts(graph_.nodes[node]);
      agreed = std::min(agreed, others.size());
      for (size_t i = 0; i < agreed; ++i)
        if (others[i] != parts[i])
          agreed = i;
    }
    return agreed;
  }

  /// Where between `begin` and `end` the name of a repeated layer ends; 0: nowhere.
  size_t repetition(Phase phase, size_t node, size_t begin, size_t end) const {
    std::vector<std::string> parts = layerParts(graph_.nodes[node]);
    for (size_t i = begin + 1; i <= end; ++i)
      if (graph_.repetitions.count({phase, joinLayer(parts, 0, i)}))
        return i;
    return 0;
  }

  std::string boxLabel(Phase phase, size_t node, size_t begin, size_t end) const {
    std::vector<std::string> parts = layerParts(graph_.nodes[node]);
    auto repeated = graph_.repetitions.find({phase, joinLayer(parts, 0, end)});
    if (repeated == graph_.repetitions.end())
      return escapeLabel(joinLayer(parts, begin, end));
    return fmt::format("<B>{} … {}  ×{}</B>", escapeLabel(joinLayer(parts, 0, end)), escapeLabel(repeated->second.last),
                       repeated->second.count);
  }

  void writeNode(size_t index, size_t common, size_t depth) {
    const Node &node = graph_.nodes[index];
    const Colours &colours = coloursOf(node.phase);
    std::string indent(2 * depth + 2, ' ');
    if (node.kind == NodeKind::Input) {
      line("{}n{} [label=<{}>, shape=oval, fillcolor=\"#ffffff\", color=\"{}\"];", indent, index,
           nodeLabel(node, 0, false), kMuted);
      return;
    }
    if (isOpen(node)) {
      writeKernel(index, common, indent);
      return;
    }
    bool isHot = totalFlops_ > 0 && node.flops >= 0.02 * totalFlops_ && node.phase != Phase::Optimizer;
    line("{}n{} [label=<{}>, fillcolor=\"{}\", color=\"{}\", penwidth={}, tooltip=\"{}\"];", indent, index,
         nodeLabel(node, common, isHot), isHot ? colours.strong : colours.fill, colours.line,
         node.kind == NodeKind::Kernel ? 2 : 1, tooltip(node));
  }

  /// Whether a kernel is drawn as a box around its ops.
  bool isOpen(const Node &node) const { return opensKernels_ && node.kind == NodeKind::Kernel && node.parts.size() > 1; }

  void writeKernel(size_t index, size_t common, const std::string &indent) {
    const Node &node = graph_.nodes[index];
    const Colours &colours = coloursOf(node.phase);
    line("{}subgraph cluster_n{} {{", indent, index);
    line("{}  graph [style=\"rounded,filled\", penwidth=2, color=\"{}\", fillcolor=\"{}\", fontsize=11, margin=6, "
         "labelloc=t, labeljust=l, tooltip=\"{}\", label=<{}>];",
         indent, colours.line, colours.fill, tooltip(node), nodeLabel(node, common, false));
    for (size_t part = 0; part < node.parts.size(); ++part)
      line("{}  n{}_{} [label=<{}>, fillcolor=\"#ffffff\", color=\"{}90\", fontsize=10];", indent, index, part,
           escapeLabel(node.parts[part]), colours.line);
    bool upwards = node.phase == Phase::Backward;
    for (auto [from, to] : node.partEdges)
      line("{}  n{}_{} -> n{}_{}{};", indent, index, upwards ? to : from, index, upwards ? from : to,
           upwards ? " [dir=back]" : "");
    for (size_t part = 1; part < node.parts.size(); ++part) // without edges it would float to the top of the picture
      if (std::none_of(node.partEdges.begin(), node.partEdges.end(),
                       [&](const auto &edge) { return edge.first == part || edge.second == part; }))
        line("{}  n{}_{} -> n{}_{} [style=invis];", indent, index, upwards ? part : 0, index, upwards ? 0 : part);
    line("{}}}", indent);
  }

  /// What an edge is tied to: an open kernel's last op gives its results, its first op takes its operands.
  std::string anchor(size_t index, bool asProducer) const {
    const Node &node = graph_.nodes[index];
    return isOpen(node) ? fmt::format("n{}_{}", index, asProducer ? node.parts.size() - 1 : 0) : fmt::format("n{}", index);
  }

  std::string nodeLabel(const Node &node, size_t common, bool isHot) const {
    std::string rows;
    auto row = [&](const std::string &content) { rows += "<TR><TD>" + content + "</TD></TR>"; };
    auto small = [&](const std::string &text, const char *colour) {
      row(fmt::format("<FONT POINT-SIZE=\"9\" COLOR=\"{}\">{}</FONT>", colour, escapeLabel(text)));
    };
    auto list = [&](const std::vector<std::string> &items, const char *sign, const char *colour) {
      for (const std::string &text : wrap(items, ", ", 4)) {
        small(sign + text, colour);
        sign = "";
      }
    };
    std::string times = node.phase == Phase::Optimizer && node.count > 1 ? fmt::format(" ×{}", node.count) : "";
    if (node.kind == NodeKind::Several) {
      row(fmt::format("<I>{} {}</I>", node.parts.size(), node.title));
      for (const std::string &text : wrap(countEqual(node.parts), " · ", 5))
        small(text, kText);
    } else if (node.kind == NodeKind::Kernel && node.parts.size() > 1) {
      std::string tensors = node.tensors > 1 ? fmt::format(" for {} tensors", node.tensors) : "";
      row(fmt::format("<B>{} kernel{}{}, saves {}</B>", node.kernel, times, tensors,
                      amount(static_cast<double>(node.bytesSaved) / node.count, "B")));
      if (!isOpen(node))
        for (const std::string &text : wrap(countEqual(node.parts), " · ", 6))
          row(escapeLabel(text));
      if (node.title != "fusion" && times.empty())
        small(node.title, kMuted);
    } else if (node.kind == NodeKind::Kernel) {
      row("<B>" + escapeLabel(node.parts.empty() ? node.title : node.parts[0]) + times + "</B>");
      if (node.title != "fusion" && times.empty())
        small(node.title, kMuted);
    } else {
      row("<B>" + escapeLabel(node.title) + times + "</B>");
    }
    std::vector<std::string> parts = layerParts(node);
    if (std::string rest = joinLayer(parts, common, parts.size()); !rest.empty())
      small(rest, kMuted);
    if (node.kind == NodeKind::Input)
      small(node.type, kMuted);
    list(node.reads, "", kMuted);
    list(node.savedReads, "○ ", kSaved);
    if (node.isSaved)
      small("● saved " + node.type, kSaved);
    if (node.givesGradient)
      small("▲ gradient " + node.type, coloursOf(Phase::Optimizer).line);
    list(node.returns, "→ ", coloursOf(Phase::Optimizer).line);
    if (isHot)
      small(amount(static_cast<double>(node.flops) / node.count, "FLOP"), kMuted);
    return "<TABLE BORDER=\"0\" CELLSPACING=\"0\" CELLPADDING=\"1\">" + rows + "</TABLE>";
  }

  static std::string tooltip(const Node &node) {
    return fmt::format("{}: {}, {}, {}", escapeLabel(node.layer), escapeLabel(node.title), amount(node.flops, "FLOP"),
                       amount(node.bytes, "B")) +
           (node.count > 1 ? fmt::format(" for all {}", node.count) : "");
  }

  void writeEdge(const Edge &edge) {
    std::string from = anchor(edge.from, true), to = anchor(edge.to, false);
    if (edge.isSummary) {
      line("  {} -> {} [{}style=dashed, constraint=false, penwidth=1.6, color=\"{}\", label=<{}>];", from, to,
           clip(edge.from, edge.to), coloursOf(Phase::Optimizer).line, escapeLabel(edge.type));
      return;
    }
    std::string label;
    for (const std::string &movement : countEqual(edge.via))
      label += fmt::format("<I>{}</I><BR/>", escapeLabel(movement));
    label += escapeLabel(edge.type);
    // The backward pass runs upwards: its edges are turned round for the layout.
    bool upwards = graph_.nodes[edge.to].phase == Phase::Backward;
    std::string colour = isNarrow(edge) ? fmt::format("color=\"{0}\", fontcolor=\"{0}\", ", kNarrow) : "";
    line("  {} -> {} [{}{}{}{}label=<{}>];", upwards ? to : from, upwards ? from : to,
         upwards ? clip(edge.to, edge.from) : clip(edge.from, edge.to), upwards ? "dir=back, " : "", edge.via.empty() ? "" : "style=\"bold\", ",
         colour, label.empty() ? " " : label);
  }

  /// Whether the value is in low precision.
  static bool isNarrow(const Edge &edge) { return edge.type.starts_with("bf16") || edge.type.starts_with("f16"); }

  /// Ends an edge at the boxes of open kernels.
  std::string clip(size_t tail, size_t head) const {
    return (isOpen(graph_.nodes[tail]) ? fmt::format("ltail=cluster_n{}, ", tail) : "") +
           (isOpen(graph_.nodes[head]) ? fmt::format("lhead=cluster_n{}, ", head) : "");
  }

  /// Nodes without edges go beside the others of their layer, not to the top of the picture.
  void placeLoneNodes() {
    std::vector<bool> connected(graph_.nodes.size());
    for (const Edge &edge : graph_.edges)
      connected[edge.from] = connected[edge.to] = true;
    for (size_t i = 0; i < graph_.nodes.size(); ++i)
      for (size_t j = 0; !connected[i] && j < graph_.nodes.size(); ++j)
        if (connected[j] && graph_.nodes[j].phase == graph_.nodes[i].phase &&
            graph_.nodes[j].layer == graph_.nodes[i].layer) {
          line("  {} -> {} [style=invis];", anchor(i, true), anchor(j, false));
          break;
        }
  }

  const Graph &graph_;
  std::string text_;
  size_t clusters_ = 0;
  bool opensKernels_ = false;
  uint64_t totalFlops_ = 0;
};

} // namespace

std::string escapeLabel(const std::string &text, size_t limit) {
  std::string result;
  size_t count = 0;
  for (size_t i = 0; i < text.size(); ++count) {
    if (count == limit) {
      result += "…";
      break;
    }
    size_t length = characterLength(text, i);
    unsigned char byte = text[i];
    if (length == 0)
      result += "\uFFFD";
    else if (byte == '&')
      result += "&amp;";
    else if (byte == '<')
      result += "&lt;";
    else if (byte == '>')
      result += "&gt;";
    else if (byte == '"')
      result += "&quot;";
    else if (byte == '\\') // also an escape in DOT's quoted strings
      result += "&#92;";
    else if (byte < 0x20 || byte == 0x7f)
      result += " ";
    else
      result += text.substr(i, length);
    i += std::max<size_t>(length, 1);
  }
  return result;
}

std::string writeDot(const Graph &graph) { return Writer(graph).write(); }

} // namespace tapeout::inspect
