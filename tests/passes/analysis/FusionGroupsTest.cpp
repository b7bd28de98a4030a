// Fusion groups: small graphs by hand, and what must hold for any graph.
#include "passes/analysis/FusionGroups.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <set>

namespace tapeout {
namespace {

using Groups = std::vector<std::vector<uint32_t>>;
constexpr EdgeKind kSame = EdgeKind::Same, kRow = EdgeKind::Row, kOther = EdgeKind::Other;
constexpr uint64_t kElements = 24, kColumns = 6, kRows = 4; // of the graphs by hand

FusionNode pointwise(std::vector<FusionEdge> operands, uint64_t elements = kElements) {
  return {.kind = NodeKind::Pointwise, .elements = elements, .operands = std::move(operands)};
}
FusionNode rowReduction(std::vector<FusionEdge> operands) {
  return {.kind = NodeKind::RowReduction, .elements = kElements, .columns = kColumns, .operands = std::move(operands)};
}
FusionNode columnReduction(std::vector<FusionEdge> operands, uint64_t key = 1) {
  return {.kind = NodeKind::ColumnReduction, .elements = kElements, .columns = key, .operands = std::move(operands)};
}
FusionNode bands(std::vector<FusionEdge> operands) {
  FusionNode node = columnReduction(std::move(operands));
  node.bandColumns = kColumns;
  return node;
}
FusionNode single(std::vector<FusionEdge> operands) { return {.operands = std::move(operands)}; }

TEST(FusionGroups, EmptyAndSingle) {
  EXPECT_EQ(formFusionGroups({}), Groups());
  EXPECT_EQ(formFusionGroups({pointwise({})}), (Groups{{0}}));
}

TEST(FusionGroups, SoftmaxIsOneGroup) {
  std::vector<FusionNode> nodes = {
      rowReduction({}),                         // maximum
      pointwise({{0, kRow}}),                   // x - maximum
      pointwise({{1, kSame}}),                  // exp
      rowReduction({{2, kSame}}),               // sum
      pointwise({{2, kSame}, {3, kRow}}),       // exp / sum
  };
  EXPECT_EQ(formFusionGroups(nodes), (Groups{{0, 1, 2, 3, 4}}));
}

TEST(FusionGroups, LayerNormIsOneGroup) {
  std::vector<FusionNode> nodes = {
      rowReduction({}),                             // sum
      pointwise({{0, kSame}}, kRows),               // mean
      pointwise({{1, kRow}}),                       // x - mean
      pointwise({{2, kSame}, {2, kSame}}),          // squares
      rowReduction({{3, kSame}}),                   // their sum
      pointwise({{4, kSame}}, kRows),               // 1 / deviation
      pointwise({{2, kSame}, {5, kRow}}),           // normalised
      pointwise({{6, kSame}}),                      // scaled
  };
  nodes[1].usedOutside = nodes[5].usedOutside = true; // saved for the gradient
  EXPECT_EQ(formFusionGroups(nodes), (Groups{{0, 1, 2, 3, 4, 5, 6, 7}}));
}

TEST(FusionGroups, BandsJoinTheirRows) {
  std::vector<FusionNode> nodes = {
      single({}),                             // x
      pointwise({{0, kSame}}),                // y, which a product reads
      bands({{1, kSame}}),                    // its columns
      pointwise({{0, kSame}}),                // another reader of x
      bands({{3, kSame}}),                    //
      single({{0, kOther}}),                  // a product
      columnReduction({{2, kOther}}, 2),      // the bands of y, together
      columnReduction({{4, kOther}}, 2),      // and of the other
  };
  nodes[1].usedOutside = true;
  EXPECT_EQ(formFusionGroups(nodes), (Groups{{0}, {1, 2, 3, 4}, {5}, {6, 7}}));
}

TEST(FusionGroups, BandsOfOtherRowsStayAlone) {
  std::vector<FusionNode> nodes = {pointwise({}), rowReduction({{0, kSame}}), bands({{0, kSame}})};
  nodes[0].usedOutside = true;
  nodes[2].bandColumns = kElements / 2;
  EXPECT_EQ(formFusionGroups(nodes), (Groups{{0, 2}, {1}}));
}

TEST(FusionGroups, BandsOfAnotherLengthAreAnotherKernel) {
  std::vector<FusionNode> nodes = {pointwise({}), bands({{0, kSame}}), pointwise({{0, kSame}}), bands({{2, kSame}})};
  nodes[0].usedOutside = nodes[2].usedOutside = true;
  EXPECT_EQ(formFusionGroups(nodes), (Groups{{0, 1, 2, 3}}));
  nodes[1].bandRows = 2;
  nodes[3].bandRows = 4;
  EXPECT_EQ(formFusionGroups(nodes).size(), 2u);
}

TEST(FusionGroups, NothingJoinsWhatReadsBands) { // the sums are there when all rows have been seen
  std::vector<FusionNode> nodes = {pointwise({}), bands({{0, kSame}}), pointwise({{1, kSame}}, kColumns)};
  nodes[0].usedOutside = true;
  EXPECT_EQ(formFusionGroups(nodes), (Groups{{0, 1}, {2}}));
}

TEST(FusionGroups, RowsAreFoundFromTheirElements) { // no reduction tells how long a row is
  EXPECT_EQ(formFusionGroups({pointwise({}, kRows), pointwise({{0, kRow}})}), (Groups{{0, 1}}));
  EXPECT_EQ(formFusionGroups({pointwise({}, kRows), pointwise({{0, kOther}})}), (Groups{{0}, {1}}));
  EXPECT_EQ(formFusionGroups({pointwise({}, kRows), pointwise({{0, kRow}}, kElements + 1)}), (Groups{{0}, {1}}));
}

TEST(FusionGroups, AReductionFeedsItsOwnRowsOnly) {
  EXPECT_EQ(formFusionGroups({rowReduction({}), pointwise({{0, kOther}})}), (Groups{{0}, {1}}));
  EXPECT_EQ(formFusionGroups({rowReduction({}), pointwise({{0, kSame}})}), (Groups{{0}, {1}}));
  FusionNode other = rowReduction({});
  other.columns = kColumns / 2;
  EXPECT_EQ(formFusionGroups({pointwise({}), rowReduction({{0, kSame}}), other}), (Groups{{0, 1}, {2}}));
  other.operands = {{0, kSame}};
  EXPECT_EQ(formFusionGroups({pointwise({}), rowReduction({{0, kSame}}), other}).size(), 2u);
}

TEST(FusionGroups, ADiamondThroughALibraryCallIsNotMerged) {
  std::vector<FusionNode> nodes = {pointwise({}), single({{0, kOther}}), pointwise({{0, kSame}, {1, kSame}})};
  EXPECT_EQ(formFusionGroups(nodes), (Groups{{0}, {1}, {2}}));
  nodes[2].operands.pop_back();
  EXPECT_EQ(formFusionGroups(nodes), (Groups{{0, 2}, {1}})); // the call moves behind
}

TEST(FusionGroups, ADiamondThroughALibraryCallAndMoreIsNotMerged) {
  std::vector<FusionNode> nodes = {pointwise({}), pointwise({{0, kSame}}), single({{1, kOther}}), pointwise({{2, kSame}}),
                                   pointwise({{0, kSame}, {3, kSame}})};
  EXPECT_EQ(formFusionGroups(nodes), (Groups{{0, 1}, {2}, {3, 4}}));
}

TEST(FusionGroups, ColumnReductionsOfOneValueShareAKernel) {
  std::vector<FusionNode> nodes = {pointwise({}), columnReduction({{0, kSame}}), columnReduction({{0, kSame}})};
  nodes[0].usedOutside = true;
  EXPECT_EQ(formFusionGroups(nodes), (Groups{{0}, {1, 2}}));
  nodes[2].columns = 2; // another shape or other dimensions
  EXPECT_EQ(formFusionGroups(nodes), (Groups{{0}, {1}, {2}}));
}

TEST(FusionGroups, ColumnReductionsOfOneKernelComputeWhatOnlyTheyRead) { // a convert of both gradients of a layer norm
  std::vector<FusionNode> nodes = {pointwise({}), pointwise({{0, kSame}}), columnReduction({{1, kSame}}), columnReduction({{0, kSame}})};
  EXPECT_EQ(formFusionGroups(nodes), (Groups{{0, 1, 2, 3}}));
}

TEST(FusionGroups, AColumnReductionOfWhatAnotherGivesIsAnotherKernel) { // the mean, then the variance
  std::vector<FusionNode> nodes = {pointwise({}), columnReduction({{0, kSame}}), pointwise({{0, kSame}, {1, kOther}}),
                                   columnReduction({{2, kSame}})};
  nodes[0].usedOutside = true;
  EXPECT_EQ(formFusionGroups(nodes), (Groups{{0}, {1}, {2, 3}}));
}

TEST(FusionGroups, AColumnReductionComputesItsOperandIfNobodyElseWantsIt) {
  std::vector<FusionNode> nodes = {pointwise({}), columnReduction({{0, kSame}})};
  EXPECT_EQ(formFusionGroups(nodes), (Groups{{0, 1}}));
  nodes[0].usedOutside = true;
  EXPECT_EQ(formFusionGroups(nodes), (Groups{{0}, {1}}));
  nodes[0].usedOutside = false;
  nodes.push_back(pointwise({{1, kSame}}, kColumns));
  EXPECT_EQ(formFusionGroups(nodes), (Groups{{0, 1}, {2}}));
}

TEST(FusionGroups, AViewThatCutsARowWouldSumInAnotherOrder) {
  std::vector<FusionNode> nodes = {pointwise({}, 4 * 192), rowReduction({{0, kSame}})};
  nodes[1].elements = 4 * 192;
  nodes[1].columns = 192;
  for (uint64_t cut : {192, 384, 64}) { // whole rows, two rows, whole steps of a row
    nodes[0].cuts = {cut};
    EXPECT_EQ(formFusionGroups(nodes), (Groups{{0, 1}})) << cut;
  }
  for (uint64_t cut : {1, 3, 96, 288}) {
    nodes[0].cuts = {cut};
    EXPECT_EQ(formFusionGroups(nodes), (Groups{{0}, {1}})) << cut;
  }
}

TEST(FusionGroups, LoopsThatCannotBeCutForBothViewsDoNotMerge) {
  std::vector<FusionNode> nodes = {pointwise({}), pointwise({{0, kSame}})};
  nodes[0].cuts = {12};
  nodes[1].cuts = {3};
  EXPECT_EQ(formFusionGroups(nodes), (Groups{{0, 1}}));
  nodes[1].cuts = {8};
  EXPECT_EQ(formFusionGroups(nodes), (Groups{{0}, {1}}));
  nodes = {pointwise({}, kRows), pointwise({{0, kRow}})}; // every 2 rows
  nodes[0].cuts = {2};
  nodes[1].cuts = {kColumns};
  EXPECT_EQ(formFusionGroups(nodes), (Groups{{0, 1}}));
  nodes[0].cuts = {3};
  nodes[1].cuts = {kColumns, 2 * kColumns};
  EXPECT_EQ(formFusionGroups(nodes), (Groups{{0}, {1}}));
}

TEST(FusionGroups, PhasesDoNotMerge) {
  std::vector<FusionNode> nodes = {pointwise({}), pointwise({{0, kSame}})};
  EXPECT_EQ(formFusionGroups(nodes), (Groups{{0, 1}}));
  nodes[1].phase = 1;
  EXPECT_EQ(formFusionGroups(nodes), (Groups{{0}, {1}}));
  nodes = {pointwise({}), columnReduction({{0, kSame}}), columnReduction({{0, kSame}})};
  nodes[0].usedOutside = true;
  nodes[2].phase = 1;
  EXPECT_EQ(formFusionGroups(nodes), (Groups{{0}, {1}, {2}}));
}

TEST(FusionGroups, GroupsEndAtTheLimit) {
  std::vector<FusionNode> nodes = {pointwise({})};
  for (uint32_t i = 0; i < 20; ++i)
    nodes.push_back(pointwise({{i, kSame}}));
  Groups groups = formFusionGroups(nodes, {.nodes = 8});
  EXPECT_EQ(groups.size(), 3u);
  for (const auto &group : groups)
    EXPECT_LE(group.size(), 8u);
  EXPECT_EQ(formFusionGroups(nodes, {.nodes = 1}).size(), nodes.size());
}

//===- Random graphs ---------------------------------------------------------------------------------------------===//

uint64_t resultElements(const FusionNode &node) {
  return node.kind == NodeKind::RowReduction ? node.elements / node.columns : std::max<uint64_t>(node.elements, 1);
}

// Edges as an importer would find them: an element, a row or anything, by the sizes of both.
FusionEdge randomEdge(std::mt19937 &random, const std::vector<FusionNode> &nodes, uint32_t producer, const FusionNode &node) {
  uint64_t from = resultElements(nodes[producer]);
  EdgeKind kind = kOther;
  if (node.kind != NodeKind::Single && from == node.elements)
    kind = random() % 8 ? kSame : kOther;
  else if (node.kind != NodeKind::Single && from > 1 && node.elements % from == 0)
    kind = random() % 8 ? kRow : kOther;
  return {producer, kind};
}

std::vector<FusionNode> randomGraph(std::mt19937 &random) {
  constexpr uint64_t sizes[] = {1, 4, 6, 24, 24, 24, 48}, columns[] = {2, 6, 6, 24};
  std::vector<FusionNode> nodes;
  uint32_t count = 2 + random() % 40, phases = 1 + random() % 3;
  for (uint32_t i = 0; i < count; ++i) {
    FusionNode node = single({});
    switch (random() % 8) {
    case 0: break;
    case 1: node = columnReduction({}, 1 + random() % 2); break;
    case 2:
    case 3:
      node = rowReduction({});
      node.columns = columns[random() % std::size(columns)];
      break;
    default: node = pointwise({}, sizes[random() % std::size(sizes)]);
    }
    if (node.kind != NodeKind::Single && random() % 4 == 0)
      node.cuts = {sizes[random() % std::size(sizes)]};
    node.phase = i * phases / count;
    node.usedOutside = random() % 6 == 0;
    uint32_t operands = node.kind == NodeKind::Pointwise || node.kind == NodeKind::Single ? random() % 4 : 1;
    for (uint32_t n = 0; n < operands && i > 0; ++n)
      node.operands.push_back(randomEdge(random, nodes, i - 1 - std::min<uint32_t>(random() % 6, i - 1), node));
    nodes.push_back(std::move(node));
  }
  return nodes;
}

// What one kernel can compute, checked from its nodes alone.
void expectOneSpace(const std::vector<FusionNode> &nodes, const std::vector<uint32_t> &group) {
  if (group.size() == 1)
    return;
  bool columnKernel = std::any_of(group.begin(), group.end(),
                                  [&](uint32_t n) { return nodes[n].kind == NodeKind::ColumnReduction; });
  uint64_t elements = 0, columns = 0;
  for (uint32_t n : group) {
    const FusionNode &node = nodes[n];
    EXPECT_NE(node.kind, NodeKind::Single);
    EXPECT_EQ(node.phase, nodes[group.front()].phase);
    EXPECT_FALSE(columnKernel && node.kind == NodeKind::RowReduction);
    elements = std::max(elements, node.elements);
    if (node.kind != NodeKind::Pointwise) {
      EXPECT_TRUE(columns == 0 || columns == node.columns) << "node " << n;
      columns = node.columns;
    }
  }
  auto isRow = [&](uint32_t n) { return nodes[n].kind == NodeKind::RowReduction || nodes[n].elements < elements; };
  uint64_t rows = elements;
  for (uint32_t n : group)
    if (isRow(n))
      rows = resultElements(nodes[n]);
  std::set<uint64_t> cuts;
  bool sumsRows = false;
  for (uint32_t n : group) {
    sumsRows |= nodes[n].kind == NodeKind::RowReduction;
    for (uint64_t cut : nodes[n].cuts)
      cuts.insert(cut * (elements / nodes[n].elements));
  }
  if (sumsRows)
    cuts.insert(columns);
  for (auto cut = cuts.begin(); cut != cuts.end(); ++cut)
    EXPECT_TRUE(std::next(cut) == cuts.end() || *std::next(cut) % *cut == 0);
  EXPECT_TRUE(!sumsRows || *cuts.begin() == columns) << "the graphs have no rows of whole steps";

  for (uint32_t n : group) {
    const FusionNode &node = nodes[n];
    if (isRow(n))
      EXPECT_EQ(resultElements(node), rows) << "node " << n;
    else
      EXPECT_EQ(node.elements, elements) << "node " << n;
    if (node.kind == NodeKind::ColumnReduction)
      continue;
    for (const FusionEdge &edge : node.operands) {
      if (std::find(group.begin(), group.end(), edge.producer) == group.end())
        continue;
      bool fromRow = isRow(edge.producer), toRow = node.kind == NodeKind::Pointwise && isRow(n);
      EXPECT_FALSE(columnKernel && nodes[edge.producer].kind == NodeKind::ColumnReduction);
      EXPECT_EQ(edge.kind, fromRow && !toRow ? kRow : kSame) << edge.producer << " -> " << n;
      EXPECT_EQ(fromRow || !toRow, true) << edge.producer << " -> " << n;
    }
  }
}

// Elements of the values that something outside of their group reads.
uint64_t writtenElements(const std::vector<FusionNode> &nodes, const std::vector<size_t> &groupOf) {
  std::vector<bool> written(nodes.size());
  for (uint32_t n = 0; n < nodes.size(); ++n) {
    written[n] = written[n] || nodes[n].usedOutside;
    for (const FusionEdge &edge : nodes[n].operands)
      if (groupOf[edge.producer] != groupOf[n])
        written[edge.producer] = true;
  }
  uint64_t elements = 0;
  for (uint32_t n = 0; n < nodes.size(); ++n)
    elements += written[n] ? resultElements(nodes[n]) : 0;
  return elements;
}

TEST(FusionGroups, RandomGraphs) {
  std::mt19937 random(1);
  size_t nodeCount = 0, groupCount = 0;
  for (int i = 0; i < 2000; ++i) {
    SCOPED_TRACE("graph " + std::to_string(i));
    std::vector<FusionNode> nodes = randomGraph(random);
    FusionLimits limits{.nodes = 2 + uint32_t(random() % 40)};
    Groups groups = formFusionGroups(nodes, limits);
    EXPECT_EQ(groups, formFusionGroups(nodes, limits));
    nodeCount += nodes.size();
    groupCount += groups.size();

    std::vector<size_t> groupOf(nodes.size(), SIZE_MAX), alone(nodes.size());
    for (size_t g = 0; g < groups.size(); ++g) {
      EXPECT_TRUE(std::is_sorted(groups[g].begin(), groups[g].end()));
      EXPECT_LE(groups[g].size(), limits.nodes);
      expectOneSpace(nodes, groups[g]);
      for (uint32_t n : groups[g]) {
        ASSERT_LT(n, nodes.size());
        EXPECT_EQ(groupOf[n], SIZE_MAX) << "node " << n << " is in two groups";
        groupOf[n] = g;
      }
    }
    for (uint32_t n = 0; n < nodes.size(); ++n) {
      alone[n] = n;
      ASSERT_NE(groupOf[n], SIZE_MAX) << "node " << n << " is in no group";
      for (const FusionEdge &edge : nodes[n].operands)
        EXPECT_LE(groupOf[edge.producer], groupOf[n]) << edge.producer << " -> " << n;
    }
    EXPECT_LE(writtenElements(nodes, groupOf), writtenElements(nodes, alone));
    for (const auto &group : formFusionGroups(nodes, {.nodes = 1}))
      EXPECT_EQ(group.size(), 1u);
    if (HasFailure())
      return;
  }
  EXPECT_LT(groupCount * 8, nodeCount * 7); // the graphs are ones that merge
}

FusionNode sized(FusionNode node, uint64_t bytes) {
  node.bytes = bytes;
  return node;
}

TEST(MemoryPeak, CountsWhatIsAlive) {
  std::vector<FusionNode> nodes = {
      sized(single({}), 10),                         // read by 1 and 3
      sized(single({{0, kOther}}), 20),              // read by 2
      sized(pointwise({{1, kSame}}), 20),            // written over 1
      sized(single({{0, kOther}, {2, kOther}}), 5),  // leaves
  };
  EXPECT_EQ(findMemoryPeak(nodes, {{0}, {1}, {2}, {3}}).bytes, 30u);
  nodes[2].operands[0].kind = kRow; // not element by element: beside it
  MemoryPeak peak = findMemoryPeak(nodes, {{0}, {1}, {2}, {3}});
  EXPECT_EQ(peak.bytes, 50u);
  EXPECT_EQ(peak.node, 2u);
  EXPECT_EQ(findMemoryPeak(nodes, {{0}, {1}, {2, 3}}).bytes, 30u); // 2 stays inside its group
}

TEST(MemoryPeak, AddsInPlace) {
  std::vector<FusionNode> nodes = {sized(single({}), 20), sized(single({{0, kSame}}), 20), sized(single({{1, kOther}}), 5)};
  EXPECT_EQ(findMemoryPeak(nodes, {{0}, {1}, {2}}).bytes, 20u);
}

// A sum of two tensors that only the end reads: merged with the end, both live as long, over the largest tensor of all.
TEST(FusionGroups, MemoryIsNotTradedForTraffic) {
  std::vector<FusionNode> nodes = {sized(single({}), 100), sized(single({}), 100),
                                   sized(pointwise({{0, kSame}, {1, kSame}}), 100)};
  for (uint32_t i = 3; i < 40; ++i) // a long way
    nodes.push_back(sized(single({{i == 3 ? 2 : i - 1, kOther}}), i == 20 ? 300 : 1));
  nodes[3].operands.clear();
  nodes.push_back(sized(pointwise({{2, kSame}, {39, kSame}}), 100));
  nodes.push_back(sized(single({{40, kOther}}), 1));
  Groups plain = formFusionGroups(nodes), bounded = formFusionGroupsWithinPeak(nodes);
  EXPECT_NE(std::find(plain.begin(), plain.end(), std::vector<uint32_t>{2, 40}), plain.end());
  EXPECT_EQ(std::find(bounded.begin(), bounded.end(), std::vector<uint32_t>{2, 40}), bounded.end());
  EXPECT_EQ(findMemoryPeak(nodes, plain).bytes, 501u);
  EXPECT_EQ(findMemoryPeak(nodes, bounded).bytes, 401u);
}

} // namespace
} // namespace tapeout
