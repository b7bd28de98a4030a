#include "tools/inspect/Simplify.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
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

namespace {

constexpr size_t kGone = static_cast<size_t>(-1);

std::string joinLayer(const std::vector<std::string> &parts, size_t count) {
  std::string text;
  for (size_t i = 0; i < std::min(count, parts.size()); ++i)
    text += (i ? "." : "") + parts[i];
  return text;
}

bool isCompute(const Node &node) {
  return node.kind == NodeKind::Op || node.kind == NodeKind::Kernel || node.kind == NodeKind::Several;
}

bool isWord(const Node &node) { return node.kind == NodeKind::Argument || node.kind == NodeKind::Constant; }

/// Moves every node to the one it is drawn as (itself, another or none), and its edges with it.
void merge(Graph &graph, const std::vector<size_t> &target) {
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

std::vector<size_t> identity(const Graph &graph) {
  std::vector<size_t> target(graph.nodes.size());
  for (size_t i = 0; i < target.size(); ++i)
    target[i] = i;
  return target;
}

void appendNew(std::vector<std::string> &list, const std::vector<std::string> &more) {
  for (const std::string &text : more)
    if (std::find(list.begin(), list.end(), text) == list.end())
      list.push_back(text);
}

/// What one node stands for, added to another that is drawn for both.
void absorb(Node &into, const Node &node) {
  into.flops += node.flops;
  into.bytes += node.bytes;
  into.isSaved |= node.isSaved;
  into.givesGradient |= node.givesGradient;
  appendNew(into.returns, node.returns);
}

/// Several different ops as one node: its parts are what was drawn before.
void absorbPart(Node &into, const Node &node) {
  if (into.kind != NodeKind::Several) {
    bool isKernel = into.kind == NodeKind::Kernel;
    if (!isKernel)
      into.parts = {into.title};
    into.kind = NodeKind::Several;
    into.title = isKernel ? "kernels" : "ops";
  }
  if (node.kind == NodeKind::Op)
    into.parts.push_back(node.title);
  else
    into.parts.insert(into.parts.end(), node.parts.begin(), node.parts.end());
  into.count = std::max(into.count, node.count);
  into.heavy |= node.heavy;
  into.type = node.type;
  appendNew(into.reads, node.reads);
  appendNew(into.savedReads, node.savedReads);
  absorb(into, node);
}

void foldMovements(Graph &graph) {
  std::vector<std::vector<size_t>> into(graph.nodes.size()), outOf(graph.nodes.size());
  for (size_t i = 0; i < graph.edges.size(); ++i) {
    into[graph.edges[i].to].push_back(i);
    outOf[graph.edges[i].from].push_back(i);
  }
  std::vector<size_t> target = identity(graph);
  for (size_t i = 0; i < graph.nodes.size(); ++i) { // producers come first
    Node &node = graph.nodes[i];
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
  std::map<std::tuple<std::string, std::vector<std::string>, std::string>, size_t> first;
  std::vector<size_t> target = identity(graph);
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    Node &node = graph.nodes[i];
    if (node.phase != Phase::Optimizer || !isCompute(node))
      continue;
    if (layers.count(node.layer))
      node.layer = "every parameter";
    auto [entry, isNew] = first.try_emplace({node.kind == NodeKind::Kernel ? "" : node.title, node.parts, node.layer}, i);
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

/// Layers of one family, as `blocks.0` to `blocks.11`, that are drawn once. `level` says which number of a name counts:
/// 0 is the outermost.
class RepeatedLayers {
public:
  RepeatedLayers(Graph &graph, size_t level) : graph_(graph), level_(level), target_(identity(graph)), copy_(target_.size()) {}

  void collapse() {
    findFamilies();
    for (auto &[key, family] : families_)
      collapseRuns(key.first, key.second, family);
    std::erase_if(graph_.edges, [&](const Edge &edge) { return isDuplicate(edge); });
    merge(graph_, target_);
  }

private:
  struct Member {
    std::vector<size_t> nodes;
    std::string structure;
  };
  using Family = std::map<uint64_t, Member>;
  struct Copy {
    size_t run = 0; ///< 0: of none
    size_t index = 0;
  };

  static std::optional<uint64_t> asNumber(const std::string &text) {
    if (text.empty() || text.size() > 9 || text.find_first_not_of("0123456789") != std::string::npos)
      return std::nullopt;
    return std::stoull(text);
  }

  void findFamilies() {
    for (size_t i = 0; i < graph_.nodes.size(); ++i) {
      const Node &node = graph_.nodes[i];
      if (!isCompute(node) || node.phase == Phase::Optimizer)
        continue;
      std::vector<std::string> parts = splitLayer(node.layer);
      size_t left = level_;
      for (size_t p = 0; p < parts.size(); ++p) {
        auto number = asNumber(parts[p]);
        if (!number || left-- > 0)
          continue;
        Member &member = families_[{node.phase, joinLayer(parts, p)}][*number];
        member.nodes.push_back(i);
        // A kernel's title is its symbol, which may differ where only a random stream does.
        member.structure += node.kind == NodeKind::Kernel ? "kernel" : node.title;
        for (const std::string &part : node.parts)
          member.structure += "+" + part;
        for (size_t q = p + 1; q < parts.size(); ++q)
          member.structure += "." + parts[q];
        member.structure += ":" + node.type + ";";
        break;
      }
    }
  }

  void collapseRuns(Phase phase, const std::string &prefix, const Family &family) {
    for (auto first = family.begin(); first != family.end();) {
      auto last = first, next = std::next(first);
      size_t index = 0;
      for (; next != family.end() && next->second.structure == first->second.structure; last = next++) {
        ++index;
        for (size_t i = 0; i < next->second.nodes.size(); ++i) {
          size_t drawn = first->second.nodes[i], node = next->second.nodes[i];
          target_[node] = drawn;
          copy_[node] = {runs_ + 1, index};
          absorb(graph_.nodes[drawn], graph_.nodes[node]);
          graph_.nodes[drawn].count += graph_.nodes[node].count;
        }
      }
      if (index > 0) {
        ++runs_;
        for (size_t node : first->second.nodes)
          copy_[node] = {runs_, 0};
        auto name = [&](uint64_t number) { return (prefix.empty() ? "" : prefix + ".") + std::to_string(number); };
        graph_.repetitions[{phase, name(first->first)}] = {name(last->first), index + 1};
      }
      first = next;
    }
  }

  /// Edges of a copy that its model has too, and those from one copy to the next.
  bool isDuplicate(const Edge &edge) const {
    const Copy &from = copy_[edge.from], &to = copy_[edge.to];
    if (from.run && to.run && from.run == to.run)
      return from.index != to.index || from.index > 0;
    if (to.index == 0)
      return false;
    return isWord(graph_.nodes[edge.from]) || (from.run && from.index == to.index);
  }

  Graph &graph_;
  size_t level_, runs_ = 0;
  std::vector<size_t> target_;
  std::vector<Copy> copy_;
  std::map<std::pair<Phase, std::string>, Family> families_;
};

/// The name without what it has in common with the layer that reads it.
std::string relativeName(const std::string &name, const std::string &layer) {
  std::vector<std::string> parts = splitLayer(name), base = splitLayer(layer);
  size_t common = 0;
  while (common + 1 < parts.size() && common < base.size() && parts[common] == base[common])
    ++common;
  std::string text;
  for (size_t i = common; i < parts.size(); ++i)
    text += (i > common ? "." : "") + parts[i];
  return text;
}

std::string describeValue(const Edge &edge, const std::string &name) {
  return edge.type.empty() ? name : name + " " + edge.type;
}

/// Parameters, constants and the like become words on the nodes that read them.
void turnArgumentsIntoWords(Graph &graph) {
  std::vector<size_t> target = identity(graph);
  std::map<std::pair<size_t, std::string>, std::set<size_t>> ofUpdates;
  for (const Edge &edge : graph.edges) {
    const Node &from = graph.nodes[edge.from];
    Node &to = graph.nodes[edge.to];
    bool readsInput = from.kind == NodeKind::Input && to.phase == Phase::Backward;
    if (!isWord(from) && !readsInput)
      continue;
    if (to.count > 1 && to.phase == Phase::Optimizer && from.kind == NodeKind::Argument && from.role != "hyperparameter")
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
  std::vector<size_t> target = identity(graph);
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
  std::vector<size_t> target = identity(graph);
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    Node &node = graph.nodes[i];
    if (!isCompute(node))
      continue;
    node.layer = joinLayer(splitLayer(node.layer), depth);
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
  mergeUpdates(graph);
  constexpr size_t kLevels = 3; // a model in a block in a stage
  for (size_t level = 0; level < kLevels; ++level)
    RepeatedLayers(graph, level).collapse();
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
