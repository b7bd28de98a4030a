#include "passes/analysis/FusionGroups.h"

#include <algorithm>
#include <optional>
#include <set>

namespace tapeout {

namespace {

/// The iteration space of a group, and how it is walked: Pointwise, by rows (RowReduction), ColumnReduction, or not at all
/// (Single). columns 0: not yet divided into rows.
struct Space {
  NodeKind kind;
  uint64_t elements, columns;
};

struct Group {
  std::vector<uint32_t> nodes; // ascending
  Space space;
  uint64_t bandColumns, bandRows; // see FusionNode
  std::set<uint64_t> cuts; // in elements of the space
  std::set<uint32_t> producers, consumers; // other groups
};

class Merger {
public:
  Merger(const std::vector<FusionNode> &nodes, const FusionLimits &limits) : nodes_(nodes), limits_(limits) {
    groups_.resize(nodes.size());
    users_.resize(nodes.size());
    sequence_.resize(nodes.size());
    position_.resize(nodes.size());
    reached_.resize(nodes.size());
    for (uint32_t i = 0; i < nodes.size(); ++i) {
      const FusionNode &node = nodes[i];
      groupOf_.push_back(i);
      place(i, i);
      Space space{node.kind, node.elements, node.kind == NodeKind::Pointwise ? 0 : node.columns};
      groups_[i] = {{i}, space, node.bandColumns, node.bandRows, {node.cuts.begin(), node.cuts.end()}, {}, {}};
      for (const FusionEdge &edge : node.operands) {
        users_[edge.producer].push_back(i);
        groups_[i].producers.insert(edge.producer);
        groups_[edge.producer].consumers.insert(i);
      }
    }
  }

  /// Tries every edge once, those of the largest kernels first: what they read twice costs most, and a small one that
  /// joined another small one could not join them any more. Then last consumers first, whose producers are still close.
  void mergeAlongEdges() {
    struct Candidate {
      uint64_t elements;
      uint32_t producer, consumer;
    };
    std::vector<Candidate> candidates;
    for (uint32_t consumer = nodes_.size(); consumer-- > 0;)
      for (const FusionEdge &edge : nodes_[consumer].operands)
        candidates.push_back({std::max(nodes_[edge.producer].elements, nodes_[consumer].elements), edge.producer, consumer});
    std::stable_sort(candidates.begin(), candidates.end(),
                     [](const Candidate &a, const Candidate &b) { return a.elements > b.elements; });
    for (const Candidate &candidate : candidates) {
      uint32_t a = groupOf_[candidate.producer], b = groupOf_[candidate.consumer];
      if (a == b)
        continue;
      if (auto space = mergedSpace(a, b); space && cutsFit(a, b, *space))
        tryMerge(a, b, *space);
    }
  }

  /// Column reductions of one shape that read what one kernel or call gives become one kernel; those of bands join what
  /// computes the rows.
  void mergeReaders() {
    constexpr size_t kMostReaders = 8;
    for (uint32_t producer = 0; producer < groups_.size(); ++producer) {
      std::vector<uint32_t> readers(groups_[producer].consumers.begin(), groups_[producer].consumers.end());
      for (size_t i = 1; i < readers.size(); ++i)
        for (size_t j = i - std::min(i, kMostReaders); j < i; ++j)
          if (!groups_[readers[i]].nodes.empty() && !groups_[readers[j]].nodes.empty()) // has not merged away
            mergeReaders(readers[j], readers[i]);
    }
  }

  std::vector<std::vector<uint32_t>> order() const {
    std::vector<std::vector<uint32_t>> result;
    for (uint32_t group : sequence_)
      if (group != kNone)
        result.push_back(groups_[group].nodes);
    return result;
  }

private:
  void mergeReaders(uint32_t a, uint32_t b) {
    const Group &first = groups_[a], &second = groups_[b];
    if (a == b || !fits(a, b) || first.consumers.count(b) || first.producers.count(b)) // one needs the other's results
      return;
    bool alike = first.space.kind == NodeKind::ColumnReduction && second.space.kind == NodeKind::ColumnReduction &&
                 first.space.elements == second.space.elements && first.space.columns == second.space.columns;
    std::optional<Space> space = alike ? first.space : spaceWithBands(a, b);
    if (space && cutsFit(a, b, *space))
      position_[a] < position_[b] ? tryMerge(a, b, *space) : tryMerge(b, a, *space);
  }

  /// The rows of a kernel that reduces the bands of one group, or of both, and computes what else the groups do.
  std::optional<Space> spaceWithBands(uint32_t a, uint32_t b) const {
    Space space{NodeKind::RowReduction, groups_[a].space.elements, std::max(groups_[a].bandColumns, groups_[b].bandColumns)};
    for (uint32_t number : {a, b}) {
      const Group &group = groups_[number];
      uint64_t columns = group.space.kind == NodeKind::ColumnReduction ? group.bandColumns : group.space.columns;
      bool isUndivided = group.space.kind == NodeKind::Pointwise && columns == 0;
      if (group.space.kind == NodeKind::Single || group.space.elements != space.elements ||
          !(isUndivided || columns == space.columns))
        return std::nullopt;
    }
    return space.columns > 0 ? std::optional(space) : std::nullopt;
  }

  bool fits(uint32_t a, uint32_t b) const {
    const Group &first = groups_[a], &second = groups_[b];
    bool bandsFit = first.bandRows == 0 || second.bandRows == 0 || first.bandRows == second.bandRows;
    return bandsFit && first.nodes.size() + second.nodes.size() <= limits_.nodes && !isWallBetween(first, second) &&
           nodes_[first.nodes.front()].phase == nodes_[second.nodes.front()].phase;
  }

  bool isWallBetween(const Group &a, const Group &b) const {
    constexpr uint32_t kNear = 24; // nodes
    uint32_t first = std::min(a.nodes.front(), b.nodes.front()), last = std::max(a.nodes.back(), b.nodes.back());
    return last - first > kNear &&
           std::any_of(limits_.walls.begin(), limits_.walls.end(), [&](uint32_t wall) { return first < wall && wall < last; });
  }

  /// The space of producer group `a` and consumer group `b` in one kernel, or none if no schedule runs them together.
  std::optional<Space> mergedSpace(uint32_t a, uint32_t b) const {
    const Group &producer = groups_[a], &consumer = groups_[b];
    bool isKernel = producer.space.kind != NodeKind::Single && consumer.space.kind != NodeKind::Single;
    if (!isKernel || producer.space.kind == NodeKind::ColumnReduction || !fits(a, b))
      return std::nullopt;
    if (consumer.space.kind == NodeKind::ColumnReduction) {
      bool isOperand = producer.space.kind == NodeKind::Pointwise && producer.space.columns == 0 &&
                       producer.space.elements == consumer.space.elements && isOnlyUsedBy(a, b) && edgesAre(a, b, {EdgeKind::Same});
      if (isOperand) // computed on the way: the kernel gives nothing else
        return consumer.space;
      std::optional<Space> space = spaceWithBands(a, b);
      return space && edgesFit(a, b, *space) ? space : std::nullopt;
    }
    Space p = producer.space, c = consumer.space;
    if (p.elements == 1 && c.elements > 1) // every element would need it first: no thread could start
      return std::nullopt;
    Space space{p.kind == NodeKind::Pointwise ? c.kind : p.kind, std::max(p.elements, c.elements), std::max(p.columns, c.columns)};
    bool fit = false;
    if (p.elements == c.elements) {
      fit = p.columns == 0 || c.columns == 0 || p.columns == c.columns;
    } else if (c.elements > p.elements && p.columns == 0 && c.elements % p.elements == 0) { // `a` has an element for each row
      space.columns = c.elements / p.elements;
      fit = (c.columns == 0 || c.columns == space.columns) && space.columns > 1;
    } else { // `b` has
      fit = p.columns != 0 && c.columns == 0 && c.elements * p.columns == p.elements;
    }
    return fit && edgesFit(a, b, space) ? std::optional(space) : std::nullopt;
  }

  bool isRow(uint32_t node, Space space) const { // gives one value per row
    return nodes_[node].kind == NodeKind::RowReduction ||
           (space.columns > 1 && nodes_[node].elements * space.columns == space.elements);
  }

  /// Every edge from `a` to `b` goes from element to element, from row to row, or from a row to its elements.
  bool edgesFit(uint32_t a, uint32_t b, Space space) const {
    for (uint32_t node : groups_[b].nodes)
      for (const FusionEdge &edge : nodes_[node].operands) {
        if (groupOf_[edge.producer] != a)
          continue;
        bool fromRow = isRow(edge.producer, space);
        bool toRow = nodes_[node].kind == NodeKind::Pointwise && isRow(node, space);
        if (edge.kind == EdgeKind::Other || nodes_[edge.producer].kind == NodeKind::ColumnReduction ||
            (edge.kind == EdgeKind::Same && fromRow != toRow) ||
            (edge.kind == EdgeKind::Row && !(fromRow && !toRow)))
          return false;
      }
    return true;
  }

  std::set<uint64_t> mergedCuts(uint32_t a, uint32_t b, Space space) const {
    std::set<uint64_t> cuts;
    for (uint32_t group : {a, b})
      for (uint64_t cut : groups_[group].cuts) // of rows, where the group computes one value per row
        cuts.insert(cut * (space.elements / groups_[group].space.elements));
    return cuts;
  }

  /// Whether loops can be cut for all views of both groups, and rows are still summed in the same order.
  bool cutsFit(uint32_t a, uint32_t b, Space space) const {
    std::set<uint64_t> cuts = mergedCuts(a, b, space);
    if (space.kind != NodeKind::ColumnReduction && space.columns > 1) {
      for (uint64_t cut : cuts)
        if (space.kind == NodeKind::RowReduction && cut < space.columns && cut % limits_.rowStep != 0)
          return false;
      cuts.insert(space.columns);
    }
    uint64_t inner = 1;
    for (uint64_t cut : cuts) {
      if (cut % inner != 0)
        return false;
      inner = cut;
    }
    return true;
  }

  bool edgesAre(uint32_t a, uint32_t b, std::set<EdgeKind> kinds) const {
    for (uint32_t node : groups_[b].nodes)
      for (const FusionEdge &edge : nodes_[node].operands)
        if (groupOf_[edge.producer] == a && !kinds.count(edge.kind))
          return false;
    return true;
  }

  bool isOnlyUsedBy(uint32_t a, uint32_t b) const {
    for (uint32_t node : groups_[a].nodes) {
      if (nodes_[node].usedOutside)
        return false;
      for (uint32_t user : users_[node])
        if (groupOf_[user] != a && groupOf_[user] != b)
          return false;
    }
    return true;
  }

  /// Merges `a` into `b`, which comes later, unless a path leads from one to the other through a third: that would be a
  /// cycle. The sequence is a topological order, so such a path lies between the two; what depends on `a` there moves
  /// behind the merged group.
  void tryMerge(uint32_t a, uint32_t b, Space space) {
    uint32_t first = position_[a], last = position_[b];
    ++stamp_;
    std::vector<uint32_t> stack{a};
    while (!stack.empty()) {
      uint32_t group = stack.back();
      stack.pop_back();
      for (uint32_t next : groups_[group].consumers) {
        if (next == b && group != a)
          return;
        if (next != b && position_[next] < last && reached_[next] != stamp_) {
          reached_[next] = stamp_;
          stack.push_back(next);
        }
      }
    }
    std::vector<uint32_t> before, behind{b};
    for (uint32_t at = first + 1; at < last; ++at)
      if (uint32_t group = sequence_[at]; group != kNone)
        (reached_[group] == stamp_ ? behind : before).push_back(group);
    merge(a, b, space);
    uint32_t at = first;
    for (const std::vector<uint32_t> *part : {&before, &behind})
      for (uint32_t group : *part)
        place(group, at++);
    for (; at <= last; ++at)
      sequence_[at] = kNone;
  }

  void place(uint32_t group, uint32_t at) {
    sequence_[at] = group;
    position_[group] = at;
  }

  void merge(uint32_t a, uint32_t b, Space space) { // into b
    Group &from = groups_[a], &into = groups_[b];
    into.cuts = mergedCuts(a, b, space);
    for (uint32_t node : from.nodes)
      groupOf_[node] = b;
    std::vector<uint32_t> nodes;
    std::merge(from.nodes.begin(), from.nodes.end(), into.nodes.begin(), into.nodes.end(), std::back_inserter(nodes));
    into.nodes = std::move(nodes);
    into.space = space;
    into.bandColumns = std::max(from.bandColumns, into.bandColumns);
    into.bandRows = std::max(from.bandRows, into.bandRows);
    for (uint32_t group : from.producers) {
      groups_[group].consumers.erase(a);
      if (group != b) {
        groups_[group].consumers.insert(b);
        into.producers.insert(group);
      }
    }
    for (uint32_t group : from.consumers) {
      groups_[group].producers.erase(a);
      if (group != b) {
        groups_[group].producers.insert(b);
        into.consumers.insert(group);
      }
    }
    from = {};
  }

  const std::vector<FusionNode> &nodes_;
  const FusionLimits &limits_;
  std::vector<Group> groups_;
  std::vector<uint32_t> groupOf_;
  std::vector<std::vector<uint32_t>> users_;

  static constexpr uint32_t kNone = UINT32_MAX;
  std::vector<uint32_t> sequence_; // groups in an order in which they can run; kNone where one has merged away
  std::vector<uint32_t> position_; // of each group in it
  std::vector<uint32_t> reached_;  // the search that last reached a group
  uint32_t stamp_ = 0;
};

} // namespace

std::vector<std::vector<uint32_t>> formFusionGroups(const std::vector<FusionNode> &nodes, const FusionLimits &limits) {
  Merger merger(nodes, limits);
  merger.mergeAlongEdges();
  merger.mergeReaders();
  merger.mergeAlongEdges(); // what only the reductions of one kernel read, they can compute on the way
  return merger.order();
}

MemoryPeak findMemoryPeak(const std::vector<FusionNode> &nodes, const std::vector<std::vector<uint32_t>> &groups) {
  std::vector<uint32_t> position(nodes.size());
  for (uint32_t at = 0; at < groups.size(); ++at)
    for (uint32_t node : groups[at])
      position[node] = at;
  std::vector<uint32_t> end(position); // of each value's life; its own position: not in memory
  for (uint32_t user = 0; user < nodes.size(); ++user)
    for (const FusionEdge &edge : nodes[user].operands)
      end[edge.producer] = std::max(end[edge.producer], position[user]);

  std::vector<int64_t> change(groups.size() + 1, 0), takenOver(groups.size(), 0);
  for (uint32_t node = 0; node < nodes.size(); ++node)
    if (end[node] > position[node]) {
      change[position[node]] += nodes[node].bytes;
      change[end[node] + 1 < groups.size() ? end[node] + 1 : groups.size()] -= nodes[node].bytes;
    }
  for (uint32_t at = 0; at < groups.size(); ++at) {
    std::multiset<uint64_t> dying; // sizes of operands whose memory a result may take
    std::set<uint32_t> seen;
    for (uint32_t reader : groups[at])
      for (const FusionEdge &edge : nodes[reader].operands)
        if (edge.kind == EdgeKind::Same && position[edge.producer] != at &&
            end[edge.producer] == at && seen.insert(edge.producer).second)
          dying.insert(nodes[edge.producer].bytes);
    for (uint32_t node : groups[at])
      if (auto operand = dying.find(nodes[node].bytes); end[node] > at && operand != dying.end()) {
        takenOver[at] += nodes[node].bytes;
        dying.erase(operand);
      }
  }
  MemoryPeak peak;
  int64_t live = 0;
  for (uint32_t at = 0; at < groups.size(); ++at) {
    live += change[at];
    if (uint64_t bytes = live - takenOver[at]; bytes > peak.bytes)
      peak = {bytes, groups[at].front()};
  }
  return peak;
}

std::vector<std::vector<uint32_t>> formFusionGroupsWithinPeak(const std::vector<FusionNode> &nodes) {
  std::vector<std::vector<uint32_t>> single;
  for (uint32_t node = 0; node < nodes.size(); ++node)
    single.push_back({node});
  uint64_t bound = findMemoryPeak(nodes, single).bytes;
  FusionLimits limits;
  std::vector<std::vector<uint32_t>> groups = formFusionGroups(nodes, limits), best = groups;
  MemoryPeak peak = findMemoryPeak(nodes, groups), lowest = peak;
  for (int round = 0; round < 8 && peak.bytes > bound; ++round) {
    limits.walls.push_back(peak.node);
    groups = formFusionGroups(nodes, limits);
    peak = findMemoryPeak(nodes, groups);
    if (peak.bytes < lowest.bytes)
      best = groups, lowest = peak;
  }
  return best;
}

} // namespace tapeout
