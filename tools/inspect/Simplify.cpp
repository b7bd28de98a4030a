#include "tools/inspect/Simplify.h"

#include "tools/inspect/Merge.h"
#include "tools/inspect/RepeatedLayers.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <tuple>

namespace tapeout::inspect {

namespace {

/// What a node is called in a list: a kernel by its ops.
std::string partName(const Node &node) {
  if (node.kind != NodeKind::Kernel)
    return node.title;
  std::string text;
  for (const std::string &part : node.parts)
    text += (text.empty() ? "" : " + ") + part;
  return text;
}

/// Several different ops as one node: its parts are what was drawn before.
void absorbPart(Node &into, const Node &node) {
  if (into.kind != NodeKind::Several) {
    into.parts = {partName(into)};
    into.title = into.kind == NodeKind::Kernel ? "kernels" : "ops";
    into.kind = NodeKind::Several;
  }
  if (node.kind == NodeKind::Several)
    into.parts.insert(into.parts.end(), node.parts.begin(), node.parts.end());
  else
    into.parts.push_back(partName(node));
  into.count = std::max(into.count, node.count);
  into.heavy |= node.heavy;
  into.type = node.type;
  appendNew(into.reads, node.reads);
  appendNew(into.savedReads, node.savedReads);
  absorb(into, node);
}

/// Samples belong to the phase that reads them first: labels to the loss.
void placeInputs(Graph &graph) {
  std::vector<bool> isRead(graph.nodes.size());
  for (const Edge &edge : graph.edges) {
    Node &input = graph.nodes[edge.from];
    if (input.kind != NodeKind::Input)
      continue;
    Phase phase = graph.nodes[edge.to].phase;
    input.phase = isRead[edge.from] ? std::min(input.phase, phase) : phase;
    isRead[edge.from] = true;
  }
}

/// A hyperparameter in another type, as the seed that every dropout reads.
bool isHyperparameter(const Graph &graph, const std::vector<size_t> &operands, const Node &node) {
  bool isScalar = node.type.find('[') == std::string::npos;
  return isScalar && !node.heavy && operands.size() == 1 &&
         graph.nodes[graph.edges[operands[0]].from].role == "hyperparameter";
}

void foldMovements(Graph &graph) {
  std::vector<std::vector<size_t>> into(graph.nodes.size()), outOf(graph.nodes.size());
  for (size_t i = 0; i < graph.edges.size(); ++i) {
    into[graph.edges[i].to].push_back(i);
    outOf[graph.edges[i].from].push_back(i);
  }
  Targets target = drawnAsThemselves(graph);
  for (size_t i = 0; i < graph.nodes.size(); ++i) { // producers come first
    Node &node = graph.nodes[i];
    if (node.kind == NodeKind::Op && isHyperparameter(graph, into[i], node))
      node.kind = NodeKind::Movement;
    if (node.kind != NodeKind::Movement)
      continue;
    if (into[i].size() != 1 || outOf[i].empty()) {
      node.kind = NodeKind::Op;
      continue;
    }
    const Edge &operand = graph.edges[into[i][0]];
    for (size_t out : outOf[i]) {
      graph.edges[out].from = operand.from;
      graph.edges[out].via.insert(graph.edges[out].via.begin(), operand.via.begin(), operand.via.end());
      graph.edges[out].via.insert(graph.edges[out].via.begin() + operand.via.size(), node.title);
    }
    for (const std::string &name : node.returns)
      graph.nodes[operand.from].returns.push_back(name);
    target[i] = kGone;
  }
  merge(graph, target);
}

/// The optimizer does the same for every parameter: one node for each of its ops.
void mergeUpdates(Graph &graph) {
  std::set<std::string> layers;
  for (const Node &node : graph.nodes)
    if (node.phase != Phase::Optimizer)
      layers.insert(node.layer);
  // Two ops of one name differ where one has a constant: the sum of all squares, and that sum + 1e-6.
  std::vector<std::string> operands(graph.nodes.size());
  for (const Edge &edge : graph.edges)
    operands[edge.to] += isWord(graph.nodes[edge.from]) ? graph.nodes[edge.from].role + "," : "value,";
  std::map<std::tuple<std::string, std::vector<std::string>, std::string, std::string>, size_t> first;
  Targets target = drawnAsThemselves(graph);
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    Node &node = graph.nodes[i];
    if (node.phase != Phase::Optimizer || !isCompute(node))
      continue;
    if (layers.count(node.layer))
      node.layer = "every parameter";
    auto [entry, isNew] =
        first.try_emplace({node.kind == NodeKind::Kernel ? "" : node.title, node.parts, node.layer, operands[i]}, i);
    target[i] = entry->second;
    if (isNew)
      continue;
    Node &drawn = graph.nodes[entry->second];
    drawn.count += node.count;
    if (drawn.type != node.type)
      drawn.type.clear();
    absorb(drawn, node);
  }
  merge(graph, target);
  std::map<std::pair<size_t, size_t>, uint64_t> lines;
  for (const Edge &edge : graph.edges)
    if (graph.nodes[edge.from].phase == Phase::Optimizer)
      ++lines[{edge.from, edge.to}];
  std::vector<Edge> edges;
  for (Edge &edge : graph.edges) {
    uint64_t &count = lines[{edge.from, edge.to}];
    if (count > 1)
      edge.type.clear();
    if (count != kGone)
      edges.push_back(edge);
    if (count > 0)
      count = kGone;
  }
  graph.edges = std::move(edges);
}

/// The name without what it has in common with the layer that reads it.
std::string relativeName(const std::string &name, const std::string &layer) {
  std::vector<std::string> parts = splitLayer(name), base = splitLayer(layer);
  size_t common = 0;
  while (common < parts.size() && common < base.size() && parts[common] == base[common])
    ++common;
  if (common == parts.size()) // the layer itself or one around it
    common = parts.size() < base.size() ? 0 : parts.size() - 1;
  return joinLayer(parts, common, parts.size());
}

std::string describeValue(const Edge &edge, const std::string &name) {
  return edge.type.empty() ? name : name + " " + edge.type;
}

/// Parameters, constants and the like become words on the nodes that read them.
void turnArgumentsIntoWords(Graph &graph) {
  Targets target = drawnAsThemselves(graph);
  std::map<std::pair<size_t, std::string>, std::set<size_t>> ofUpdates;
  for (const Edge &edge : graph.edges) {
    const Node &from = graph.nodes[edge.from];
    Node &to = graph.nodes[edge.to];
    bool readsInput = from.kind == NodeKind::Input && to.phase == Phase::Backward;
    if (!isWord(from) && !readsInput)
      continue;
    if (to.count > 1 && to.phase == Phase::Optimizer && from.kind == NodeKind::Argument &&
        from.role != "hyperparameter")
      ofUpdates[{edge.to, from.role}].insert(edge.from);
    else
      appendNew(to.reads, {from.kind == NodeKind::Constant || from.role == "hyperparameter"
                               ? from.title
                               : describeValue(edge, relativeName(from.layer, to.layer))});
  }
  for (const auto &[key, arguments] : ofUpdates)
    graph.nodes[key.first].reads.push_back(fmt::format("{}: {}", key.second, arguments.size()));
  std::erase_if(graph.edges, [&](const Edge &edge) {
    return graph.nodes[edge.from].kind == NodeKind::Input && graph.nodes[edge.to].phase == Phase::Backward;
  });
  for (size_t i = 0; i < target.size(); ++i)
    if (isWord(graph.nodes[i]))
      target[i] = kGone;
  merge(graph, target);
}

/// What crosses from the forward to the backward pass and from there to the optimizer would be lines across the whole
/// picture, which nobody can follow and Graphviz cannot lay out: words instead, and one line for all gradients.
void turnCrossingsIntoWords(Graph &graph) {
  std::set<size_t> gradients;
  Edge summary;
  std::vector<Edge> edges;
  for (Edge &edge : graph.edges) {
    Node &from = graph.nodes[edge.from], &to = graph.nodes[edge.to];
    if (from.phase == Phase::Forward && to.phase == Phase::Backward) {
      from.isSaved = true;
      appendNew(to.savedReads, {describeValue(edge, relativeName(from.layer, to.layer))});
    } else if (from.phase != Phase::Optimizer && to.phase == Phase::Optimizer && isCompute(from)) {
      from.givesGradient = true;
      if (gradients.empty())
        summary.to = edge.to;
      if (gradients.insert(edge.from).second)
        summary.from = std::max(summary.from, edge.from);
    } else {
      edges.push_back(std::move(edge));
    }
  }
  graph.edges = std::move(edges);
  if (gradients.empty())
    return;
  uint64_t count = 0;
  for (size_t node : gradients)
    count += graph.nodes[node].count;
  summary.type = fmt::format("{} gradients", count);
  summary.isSummary = true;
  graph.edges.push_back(summary);
}

/// Merges a small op with its only consumer or producer where both belong to one layer: that makes no cycle.
bool mergeNeighbours(Graph &graph) {
  std::vector<std::set<size_t>> producers(graph.nodes.size()), consumers(graph.nodes.size());
  for (const Edge &edge : graph.edges) {
    consumers[edge.from].insert(edge.to);
    producers[edge.to].insert(edge.from);
  }
  Targets target = drawnAsThemselves(graph);
  std::vector<bool> touched(graph.nodes.size());
  bool changed = false;
  auto isSmall = [](const Node &node) { return isCompute(node) && !node.heavy && node.phase != Phase::Optimizer; };
  for (const Edge &edge : graph.edges) {
    Node &from = graph.nodes[edge.from], &to = graph.nodes[edge.to];
    bool alone = consumers[edge.from].size() == 1 || producers[edge.to].size() == 1;
    if (touched[edge.from] || touched[edge.to] || edge.isSummary || !alone || !isSmall(from) || !isSmall(to) ||
        from.phase != to.phase || from.layer != to.layer || from.count != to.count)
      continue;
    absorbPart(from, to);
    target[edge.to] = edge.from;
    touched[edge.from] = touched[edge.to] = changed = true;
  }
  if (changed)
    merge(graph, target);
  return changed;
}

/// One node for everything of a phase in a layer, names cut to `depth` parts.
void mergeLayers(Graph &graph, size_t depth) {
  std::map<std::pair<Phase, std::string>, size_t> first;
  Targets target = drawnAsThemselves(graph);
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    Node &node = graph.nodes[i];
    if (!isCompute(node))
      continue;
    node.layer = joinLayer(splitLayer(node.layer), 0, depth);
    auto [entry, isNew] = first.try_emplace({node.phase, node.layer}, i);
    target[i] = entry->second;
    if (!isNew)
      absorbPart(graph.nodes[entry->second], node);
  }
  merge(graph, target);
}

} // namespace

void simplify(Graph &graph, size_t nodeLimit) {
  foldMovements(graph);
  placeInputs(graph);
  mergeUpdates(graph);
  constexpr size_t kLevels = 3; // a model in a block in a stage
  for (size_t level = 0; level < kLevels; ++level)
    collapseRepeatedLayers(graph, level);
  turnArgumentsIntoWords(graph);
  turnCrossingsIntoWords(graph);
  if (graph.nodes.size() > nodeLimit)
    while (mergeNeighbours(graph)) {
    }
  size_t depth = 0;
  for (const Node &node : graph.nodes)
    depth = std::max(depth, splitLayer(node.layer).size());
  while (graph.nodes.size() > nodeLimit && depth-- > 0)
    mergeLayers(graph, depth);
}

} // namespace tapeout::inspect
