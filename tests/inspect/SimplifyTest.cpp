// What is drawn once, and how a graph gets below the limit.
#include "tools/inspect/Simplify.h"

#include "gtest/gtest.h"

#include <algorithm>
#include <set>

namespace tapeout::inspect {
namespace {

size_t add(Graph &graph, const std::string &title, const std::string &layer, std::vector<size_t> from,
           Phase phase = Phase::Forward) {
  Node node;
  node.title = title;
  node.layer = layer;
  node.phase = phase;
  node.type = "[4]";
  node.flops = 10;
  graph.nodes.push_back(node);
  size_t index = graph.nodes.size() - 1;
  for (size_t producer : from)
    graph.edges.push_back({producer, index, "[4]", {}});
  return index;
}

/// stem -> blocks.0 -> ... -> head; each block: fc and act.
Graph chain(size_t blocks, size_t unlike = size_t(-1)) {
  Graph graph;
  size_t last = add(graph, "embedding", "stem", {});
  for (size_t i = 0; i < blocks; ++i) {
    std::string block = "blocks." + std::to_string(i);
    last = add(graph, "dot_general", block + ".fc", {last});
    last = add(graph, i == unlike ? "tanh" : "relu", block + ".act", {last});
  }
  add(graph, "dot_general", "head", {last});
  return graph;
}

using Line = std::pair<std::string, std::string>;
std::set<Line> lines(const Graph &graph) {
  std::set<Line> result;
  for (const Edge &edge : graph.edges)
    result.insert({graph.nodes[edge.from].layer, graph.nodes[edge.to].layer});
  return result;
}

TEST(SimplifyTest, LayersOfOneStructureAreDrawnOnce) {
  Graph graph = chain(12);
  simplify(graph);
  EXPECT_EQ(graph.nodes.size(), 4u);
  EXPECT_EQ(lines(graph),
            (std::set<Line>{{"stem", "blocks.0.fc"}, {"blocks.0.fc", "blocks.0.act"}, {"blocks.0.act", "head"}}));
  ASSERT_EQ(graph.repetitions.size(), 1u);
  const Repetition &repetition = graph.repetitions.at({Phase::Forward, "blocks.0"});
  EXPECT_EQ(repetition.last, "blocks.11");
  EXPECT_EQ(repetition.count, 12u);
  EXPECT_EQ(graph.nodes[1].count, 12u);
  EXPECT_EQ(graph.nodes[1].flops, 120u);
}

TEST(SimplifyTest, AnUnlikeLayerEndsTheRepetition) {
  Graph graph = chain(10, 4); // numbers in order: 9 after 8
  simplify(graph);
  EXPECT_EQ(graph.nodes.size(), 8u);
  EXPECT_EQ(graph.repetitions.at({Phase::Forward, "blocks.0"}).last, "blocks.3");
  EXPECT_EQ(graph.repetitions.at({Phase::Forward, "blocks.5"}).last, "blocks.9");
}

TEST(SimplifyTest, BackwardLayersAreDrawnOnceToo) {
  Graph graph = chain(3);
  size_t last = add(graph, "reduce sum", "loss", {graph.nodes.size() - 1}, Phase::Loss);
  for (size_t i = 3; i-- > 0;)
    last = add(graph, "relu_grad", "blocks." + std::to_string(i) + ".act", {last, 2 + 2 * i}, Phase::Backward);
  add(graph, "embedding_grad", "stem", {last}, Phase::Backward);
  simplify(graph);
  EXPECT_EQ(graph.repetitions.at({Phase::Backward, "blocks.0"}).count, 3u);
  EXPECT_EQ(graph.nodes.size(), 7u);
  EXPECT_TRUE(lines(graph).count({"loss", "blocks.0.act"}));
  EXPECT_TRUE(lines(graph).count({"blocks.0.act", "stem"}));
  auto gradient =
      std::find_if(graph.nodes.begin(), graph.nodes.end(), [](const Node &node) { return node.title == "relu_grad"; });
  EXPECT_EQ(gradient->savedReads, std::vector<std::string>{"act [4]"});
}

TEST(SimplifyTest, LayersWithOthersInBetweenAreNotDrawnOnce) {
  Graph graph;
  size_t last = add(graph, "embedding", "stem", {});
  for (int i = 0; i < 2; ++i) {
    last = add(graph, "dot_general", "layers." + std::to_string(i), {last});
    last = add(graph, "relu", "between", {last});
  }
  simplify(graph);
  EXPECT_EQ(graph.nodes.size(), 5u);
  EXPECT_TRUE(graph.repetitions.empty());
}

TEST(SimplifyTest, UpdatesAreDrawnOnce) {
  Graph graph;
  size_t norm = add(graph, "sqrt", "clip", {}, Phase::Optimizer);
  for (int i = 0; i < 200; ++i) {
    std::string layer = "l" + std::to_string(i);
    size_t gradient = add(graph, "dot_general", layer, {}, Phase::Backward);
    add(graph, "sgd", layer, {gradient, norm}, Phase::Optimizer);
  }
  simplify(graph, 1000);
  auto update =
      std::find_if(graph.nodes.begin(), graph.nodes.end(), [](const Node &node) { return node.title == "sgd"; });
  EXPECT_EQ(update->count, 200u);
  EXPECT_EQ(graph.nodes.size(), 202u);
  ASSERT_EQ(graph.edges.size(), 2u); // norm -> updates, all gradients -> updates
  EXPECT_EQ(graph.edges[1].type, "200 gradients");
}

TEST(SimplifyTest, SmallOpsOfALayerMergeAboveTheLimit) {
  Graph graph;
  size_t last = add(graph, "embedding", "stem", {});
  for (int i = 0; i < 10; ++i)
    last = add(graph, i == 5 ? "exp" : "add", "norm", {last});
  Graph whole = graph;
  simplify(whole, 11);
  EXPECT_EQ(whole.nodes.size(), 11u);
  simplify(graph, 5);
  ASSERT_EQ(graph.nodes.size(), 2u);
  EXPECT_EQ(graph.nodes[1].kind, NodeKind::Several);
  EXPECT_EQ(graph.nodes[1].parts.size(), 10u);
  EXPECT_EQ(graph.nodes[1].parts[5], "exp");
}

TEST(SimplifyTest, MergedKernelsAreCountedAsKernels) {
  Graph graph;
  size_t last = add(graph, "k0", "norm", {});
  add(graph, "k1", "norm", {last});
  for (Node &node : graph.nodes) {
    node.kind = NodeKind::Kernel;
    node.parts = {"add", "exp"};
  }
  simplify(graph, 1);
  ASSERT_EQ(graph.nodes.size(), 1u);
  EXPECT_EQ(graph.nodes[0].title, "kernels");
  EXPECT_EQ(graph.nodes[0].parts, (std::vector<std::string>{"add + exp", "add + exp"}));
}

TEST(SimplifyTest, AnyGraphGetsBelowTheLimit) {
  Graph graph;
  size_t last = add(graph, "embedding", "stem", {});
  for (int i = 0; i < 3000; ++i) {
    last = add(graph, i % 7 ? "convolution" : "split", "a" + std::to_string(i % 50) + ".b" + std::to_string(i),
               {last, size_t(i) / 2});
    graph.nodes.back().heavy = true;
  }
  simplify(graph);
  EXPECT_LE(graph.nodes.size(), kNodeLimit);
  EXPECT_GT(graph.nodes.size(), 10u);
}

} // namespace
} // namespace tapeout::inspect
