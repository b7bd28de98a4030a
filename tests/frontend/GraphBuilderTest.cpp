// The builder knows the shape of every value, numbers values as a graph wants them, and names them by scope.

#include "frontend/GraphBuilder.h"
#include "frontend/VerifyGraph.h"

#include <gtest/gtest.h>

using namespace tapeout;
using namespace tapeout::frontend;

namespace {

using Shape = GraphBuilder::Shape;

class GraphBuilderTest : public testing::Test {
protected:
  GraphBuilder g{"test", Task::Regression};
  Value x = g.input("x", {ElementType::F32, {kBatch, 6, 8}});
};

TEST_F(GraphBuilderTest, knowsShapes) {
  EXPECT_EQ(g.shape(g.relu(x)), (Shape{kBatch, 6, 8}));
  EXPECT_EQ(g.shape(g.reshape(x, {kBatch, 48})), (Shape{kBatch, 48}));
  EXPECT_EQ(g.shape(g.transpose(x, {0, 2, 1})), (Shape{kBatch, 8, 6}));
  EXPECT_EQ(g.shape(g.slice(x, {0, 1, 0}, {kBatch, 3, 8})), (Shape{kBatch, 2, 8}));
  const std::vector<Value> parts = g.split(x, 1, 3);
  ASSERT_EQ(parts.size(), 3u);
  EXPECT_EQ(g.shape(g.concatenate({parts[0], x}, 1)), (Shape{kBatch, 8, 8}));
  const auto table = g.ropeTable(5, 8, 10000);
  EXPECT_EQ(g.shape(table.sin), (Shape{5, 4}));
  const Value heads = g.input("heads", {ElementType::F32, {kBatch, 5, 2, 8}});
  EXPECT_EQ(g.shape(g.rope(heads, table)), (Shape{kBatch, 5, 2, 8}));
  EXPECT_EQ(g.shape(parts[2]), (Shape{kBatch, 2, 8}));
  const Value w = g.parameter("w", {5, 8}, zeros());
  EXPECT_EQ(g.shape(g.matmul(x, w, 1)), (Shape{kBatch, 6, 5}));
  EXPECT_EQ(g.shape(g.broadcast(w, {kBatch, 5, 8}, {1, 2})), (Shape{kBatch, 5, 8}));
  const Value ids = g.input("ids", {ElementType::I32, {kBatch, 6}});
  EXPECT_EQ(g.shape(g.embedding(w, ids)), (Shape{kBatch, 6, 8}));
  EXPECT_EQ(g.extent(x, -1), 8);
  EXPECT_EQ(g.extent(x, 0), kBatch);
}

TEST_F(GraphBuilderTest, knowsShapesOfPlanes) {
  const Value planes = g.input("planes", {ElementType::F32, {kBatch, 4, 9, 8}});
  EXPECT_EQ(g.shape(g.convolution("c", planes, 6, {.size = 3, .stride = 2, .padding = 1}, zeros(), zeros())), (Shape{kBatch, 6, 5, 4}));
  EXPECT_EQ(g.shape(g.transposedConvolution("t", planes, 2, {.size = 3, .stride = 2}, zeros(), std::nullopt)),
            (Shape{kBatch, 2, 19, 17}));
  EXPECT_EQ(g.shape(g.maxPool(planes, {.size = 2, .stride = 2})), (Shape{kBatch, 4, 4, 4}));
  EXPECT_EQ(g.shape(g.averagePool(planes, {.size = 3})), (Shape{kBatch, 4, 7, 6}));
  EXPECT_EQ(g.shape(g.globalAverage(planes)), (Shape{kBatch, 4}));
  EXPECT_EQ(g.shape(g.concatenate({planes, planes}, 1)), (Shape{kBatch, 8, 9, 8}));
  EXPECT_EQ(g.shape(g.groupNorm("g", g.batchNorm("b", planes), 2)), (Shape{kBatch, 4, 9, 8}));
}

TEST_F(GraphBuilderTest, numbersInputsThenParametersThenResults) {
  const Value early = g.relu(x);
  const Value gamma = g.parameter("gamma", {8}, ones());
  const Value y = g.input("y", {ElementType::F32, {kBatch, 6, 8}});
  const Value beta = g.parameter("beta", {8}, zeros());
  const Value sum = g.add(early, g.layerNorm(y, gamma, beta, 1e-5));
  const Graph graph = g.finish(sum);
  // x 0, y 1, gamma 2, beta 3, relu 4, layer_norm 5, add 6.
  EXPECT_EQ(graph.nodes[0].operands, (std::vector<uint32_t>{0}));
  EXPECT_EQ(graph.nodes[1].operands, (std::vector<uint32_t>{1, 2, 3}));
  EXPECT_EQ(graph.nodes[2].operands, (std::vector<uint32_t>{4, 5}));
  EXPECT_EQ(graph.output, 6u);
  EXPECT_TRUE(verifyGraph(graph).isOk());
}

TEST_F(GraphBuilderTest, namesByScope) {
  g.relu(x);
  {
    const auto block = g.scope("blocks.0");
    const auto attention = g.scope("attn");
    g.linear("qkv", x, 4, zeros(), std::nullopt);
  }
  const Graph graph = g.finish(g.relu(x));
  EXPECT_EQ(graph.nodes[0].name, "test");
  EXPECT_EQ(graph.nodes[1].name, "blocks.0.attn.qkv");
  EXPECT_EQ(graph.nodes[2].name, "test");
  EXPECT_EQ(graph.parameters[0].name, "blocks.0.attn.qkv.weight");
}

TEST_F(GraphBuilderTest, emitsALinearLayerAsPyTorchStoresIt) {
  const Graph graph = g.finish(g.linear("fc", x, 4, normal(0, 0.02), zeros()));
  ASSERT_EQ(graph.nodes.size(), 3u);
  EXPECT_EQ(graph.parameters[0].type.shape, (Shape{4, 8}));
  EXPECT_EQ(graph.parameters[1].type.shape, (Shape{4}));
  const Node product = {
      "dot_general",
      "fc",
      {0, 1},
      1,
      {{"lhs_batch", Shape{}}, {"rhs_batch", Shape{}}, {"lhs_contract", Shape{2}}, {"rhs_contract", Shape{1}}}};
  EXPECT_EQ(graph.nodes[0], product);
  const Node bias = {
      "broadcast_in_dim", "fc", {2}, 1, {{"shape", Shape{kBatch, 6, 4}}, {"broadcast_dimensions", Shape{2}}}};
  EXPECT_EQ(graph.nodes[1], bias);
  EXPECT_EQ(graph.nodes[2], (Node{"add", "fc", {3, 4}, 1, {}}));
}

TEST_F(GraphBuilderTest, omitsDropoutOfNothing) {
  g.dropout(x, 0);
  const Value y = g.dropout(x, 0.25);
  const Graph graph = g.finish(y);
  ASSERT_EQ(graph.nodes.size(), 1u);
  EXPECT_EQ(graph.nodes[0], (Node{"dropout", "test", {0}, 1, {{"rate", 0.25}}}));
}

TEST_F(GraphBuilderTest, emitsAttentionAndGelu) {
  const Value q = g.gelu(g.reshape(x, {kBatch, 6, 2, 4}), /*tanhApproximate=*/false);
  const Graph graph = g.finish(g.attention(q, q, q, {.causal = true, .scale = 0.5, .dropout = 0.1}));
  EXPECT_EQ(graph.nodes[1], (Node{"gelu", "test", {1}, 1, {{"approximate", std::string("none")}}}));
  EXPECT_EQ(graph.nodes[2],
            (Node{"attention", "test", {2, 2, 2}, 1, {{"causal", true}, {"scale", 0.5}, {"dropout", 0.1}}}));
}

TEST_F(GraphBuilderTest, passesLengthsToAttention) {
  const Value lengths = g.input("lengths", {ElementType::I32, {kBatch}}), q = g.reshape(x, {kBatch, 6, 2, 4});
  const Graph graph = g.finish(g.attention(q, q, q, {.causal = false, .lengths = lengths}));
  EXPECT_EQ(graph.nodes[1], (Node{"attention", "test", {2, 2, 2, 1}, 1, {{"causal", false}, {"scale", 1.0}, {"dropout", 0.0}}}));
}

#ifndef NDEBUG
TEST_F(GraphBuilderTest, assertsOnShapesThatDoNotFit) {
  const Value w = g.parameter("w", {5, 7}, zeros());
  EXPECT_DEATH(g.matmul(x, w, 1), "");
  EXPECT_DEATH(g.add(x, w), "operands of one type");
  EXPECT_DEATH(g.reshape(x, {kBatch, 47}), "");
  EXPECT_DEATH(g.broadcast(w, {kBatch, 5, 8}, {1, 2}), "");
}
#endif

} // namespace
