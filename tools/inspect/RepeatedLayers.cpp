#include "tools/inspect/RepeatedLayers.h"

#include "tools/inspect/Merge.h"

#include <optional>
#include <set>

namespace tapeout::inspect {

namespace {

class RepeatedLayers {
public:
  RepeatedLayers(Graph &graph, size_t level)
      : graph_(graph), level_(level), target_(drawnAsThemselves(graph)), copy_(target_.size()),
        producers_(target_.size()) {
    for (const Edge &edge : graph.edges)
      producers_[edge.to].push_back(edge.from);
  }

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
        Member &member = families_[{node.phase, joinLayer(parts, 0, p)}][*number];
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
      while (next != family.end() && next->second.structure == first->second.structure)
        last = next++;
      if (first != last && leavesAndReturns(phase, first, next)) {
        first = next;
        continue;
      }
      size_t index = 0;
      for (auto copy = std::next(first); copy != next; ++copy) {
        ++index;
        for (size_t i = 0; i < copy->second.nodes.size(); ++i) {
          size_t drawn = first->second.nodes[i], node = copy->second.nodes[i];
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

  /// Whether values go from these layers to others and come back: drawn once, they would run in circles.
  bool leavesAndReturns(Phase phase, Family::const_iterator first, Family::const_iterator end) const {
    std::set<size_t> inside, after;
    for (; first != end; ++first)
      inside.insert(first->second.nodes.begin(), first->second.nodes.end());
    for (size_t node = *inside.begin(); node <= *inside.rbegin(); ++node) {
      if (graph_.nodes[node].phase != phase)
        continue;
      for (size_t producer : producers_[node])
        if (inside.count(node) ? after.count(producer) : inside.count(producer) || after.count(producer)) {
          if (inside.count(node))
            return true;
          after.insert(node);
        }
    }
    return false;
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
  Targets target_;
  std::vector<Copy> copy_;
  std::vector<std::vector<size_t>> producers_;
  std::map<std::pair<Phase, std::string>, Family> families_;
};

} // namespace

void collapseRepeatedLayers(Graph &graph, size_t level) { RepeatedLayers(graph, level).collapse(); }

} // namespace tapeout::inspect
