#include "tools/inspect/Merge.h"

#include <algorithm>
#include <set>
#include <tuple>

namespace tapeout::inspect {

std::vector<std::string> splitLayer(const std::string &layer) {
  std::vector<std::string> parts;
  for (size_t start = 0; start <= layer.size();) {
    size_t end = std::min(layer.find('.', start), layer.size());
    parts.push_back(layer.substr(start, end - start));
    start = end + 1;
  }
  return parts;
}

std::string joinLayer(const std::vector<std::string> &parts, size_t begin, size_t end) {
  std::string text;
  for (size_t i = begin; i < std::min(end, parts.size()); ++i)
    text += (i > begin ? "." : "") + parts[i];
  return text;
}

bool isCompute(const Node &node) {
  return node.kind == NodeKind::Op || node.kind == NodeKind::Kernel || node.kind == NodeKind::Several;
}

bool isWord(const Node &node) { return node.kind == NodeKind::Argument || node.kind == NodeKind::Constant; }

void merge(Graph &graph, const Targets &target) {
  std::vector<size_t> position(graph.nodes.size(), kGone);
  std::vector<Node> nodes;
  for (size_t i = 0; i < graph.nodes.size(); ++i)
    if (target[i] == i) {
      position[i] = nodes.size();
      nodes.push_back(std::move(graph.nodes[i]));
    }
  std::vector<Edge> edges;
  std::set<std::tuple<size_t, size_t, std::string, std::vector<std::string>>> seen;
  for (Edge &edge : graph.edges) {
    size_t from = target[edge.from], to = target[edge.to];
    if (from == kGone || to == kGone || (from == to && edge.from != edge.to))
      continue;
    edge.from = position[from];
    edge.to = position[to];
    if (edge.from != edge.to && seen.insert({edge.from, edge.to, edge.type, edge.via}).second)
      edges.push_back(std::move(edge));
  }
  graph.nodes = std::move(nodes);
  graph.edges = std::move(edges);
}

Targets drawnAsThemselves(const Graph &graph) {
  Targets target(graph.nodes.size());
  for (size_t i = 0; i < target.size(); ++i)
    target[i] = i;
  return target;
}

void appendNew(std::vector<std::string> &list, const std::vector<std::string> &more) {
  for (const std::string &text : more)
    if (std::find(list.begin(), list.end(), text) == list.end())
      list.push_back(text);
}

void absorb(Node &into, const Node &node) {
  into.flops += node.flops;
  into.bytes += node.bytes;
  into.bytesSaved += node.bytesSaved;
  into.isSaved |= node.isSaved;
  into.givesGradient |= node.givesGradient;
  appendNew(into.returns, node.returns);
}

} // namespace tapeout::inspect
