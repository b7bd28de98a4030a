// From IR text to nodes and edges.
#include "tools/inspect/GraphModel.h"
#include "tests/inspect/Parse.h"
#include "tools/inspect/Simplify.h"

#include "gtest/gtest.h"

using namespace mlir;

namespace tapeout::inspect {
namespace {

using Words = std::vector<std::string>;
using PartEdges = std::vector<std::pair<size_t, size_t>>;

class GraphModelTest : public testing::Test {
protected:
  Graph build(const char *text, const std::string &function = "") {
    module_ = parseSourceString<ModuleOp>(text, context_.get());
    EXPECT_TRUE(module_);
    Result<Graph> graph = buildGraph(*module_, function);
    EXPECT_TRUE(graph.isOk()) << graph.status().message();
    return *graph;
  }
  static const Node &find(const Graph &graph, const std::string &title, Phase phase) {
    for (const Node &node : graph.nodes)
      if (node.title == title && node.phase == phase)
        return node;
    ADD_FAILURE() << "no node " << title;
    return graph.nodes.front();
  }

  std::unique_ptr<MLIRContext> context_ = makeContext();
  OwningOpRef<ModuleOp> module_;
};

TEST_F(GraphModelTest, EveryArgumentAndOpIsANode) {
  Graph graph = build(kStep);
  EXPECT_EQ(graph.title, "@step");
  ASSERT_EQ(graph.nodes.size(), 13u); // 3 arguments, 10 ops
  const Node &product = find(graph, "dot_general", Phase::Forward);
  EXPECT_EQ(product.layer, "fc");
  EXPECT_EQ(product.type, "[4,2]");
  EXPECT_EQ(product.flops, 2u * 4 * 2 * 8);
  EXPECT_EQ(product.bytes, 4u * (4 * 8 + 2 * 8 + 4 * 2));
  EXPECT_TRUE(product.heavy);
  const Node &sum = find(graph, "reduce sum", Phase::Loss);
  EXPECT_EQ(sum.type, "f32");
  EXPECT_EQ(sum.returns, Words{"loss"});
  EXPECT_EQ(find(graph, "broadcast_in_dim", Phase::Backward).kind, NodeKind::Movement);
  EXPECT_EQ(find(graph, "lr", Phase::Optimizer).kind, NodeKind::Argument);
  EXPECT_EQ(find(graph, "0.5", Phase::Optimizer).kind, NodeKind::Constant);
}

TEST_F(GraphModelTest, CrossingsArgumentsAndMovementsAreWords) {
  Graph graph = build(kStep);
  simplify(graph);
  EXPECT_EQ(graph.nodes.size(), 7u); // the sample, two products, tanh, reduce, multiply, sgd
  EXPECT_EQ(find(graph, "dot_general", Phase::Forward).reads, Words{"weight [2,8]"});
  EXPECT_TRUE(find(graph, "tanh", Phase::Forward).isSaved);
  const Node &gradient = find(graph, "multiply", Phase::Backward);
  EXPECT_EQ(gradient.savedReads, Words{"act [4,2]"});
  EXPECT_EQ(gradient.reads, Words{"1"});
  const Node &weightGradient = find(graph, "dot_general", Phase::Backward);
  EXPECT_EQ(weightGradient.reads, Words{"x [4,8]"});
  EXPECT_TRUE(weightGradient.givesGradient);
  EXPECT_EQ(find(graph, "sgd", Phase::Optimizer).reads, (Words{"fc.weight [2,8]", "lr", "0.5"}));
  for (const Edge &edge : graph.edges)
    EXPECT_FALSE(graph.nodes[edge.from].phase == Phase::Forward && graph.nodes[edge.to].phase == Phase::Backward);
  EXPECT_EQ(std::count_if(graph.edges.begin(), graph.edges.end(), [](const Edge &edge) { return edge.isSummary; }), 1);
}

TEST_F(GraphModelTest, FusionGroupsShowTheirOps) {
  Graph graph = build(R"(
    func.func @forward(%x: tensor<4xf32> {tape.role = "input", tape.name = "x"}) -> tensor<4xf32> {
      %0 = tape.fusion(%x) : (tensor<4xf32>) -> tensor<4xf32> {
      ^bb0(%a: tensor<4xf32>):
        %1 = tape.tanh %a : tensor<4xf32>
        %2 = tape.exp %1 : tensor<4xf32>
        tape.yield %2 : tensor<4xf32>
      } loc("act")
      return %0 : tensor<4xf32>
    })");
  const Node &group = find(graph, "fusion", Phase::Forward);
  EXPECT_EQ(group.kind, NodeKind::Kernel);
  EXPECT_EQ(group.parts, (Words{"tanh", "exp"}));
  EXPECT_EQ(group.returns, Words{"result 0"});
  EXPECT_FALSE(group.heavy);
  EXPECT_EQ(group.kernel, "elementwise");
  EXPECT_EQ(group.partEdges, PartEdges({{0, 1}}));
  EXPECT_EQ(group.bytes, 32u);
  EXPECT_EQ(group.bytesSaved, 32u); // tanh's result is neither written nor read
}

TEST_F(GraphModelTest, AKernelForManyTensorsShowsTheOpsOfOne) {
  Graph graph = build(R"(
    func.func @forward(%x: tensor<4xf32> {tape.role = "input", tape.name = "x"}, %y: tensor<8xf32> {tape.role = "input", tape.name = "y"})
        -> (tensor<4xf32>, tensor<8xf32>) {
      %0:2 = tape.fusion(%x, %y) attributes {tensors = 2 : i64} : (tensor<4xf32>, tensor<8xf32>) -> (tensor<4xf32>, tensor<8xf32>) {
      ^bb0(%a: tensor<4xf32>, %b: tensor<8xf32>):
        %1 = tape.tanh %a : tensor<4xf32>
        %2 = tape.exp %1 : tensor<4xf32>
        %3 = tape.tanh %b : tensor<8xf32>
        %4 = tape.exp %3 : tensor<8xf32>
        tape.yield %2, %4 : tensor<4xf32>, tensor<8xf32>
      } loc("all")
      return %0#0, %0#1 : tensor<4xf32>, tensor<8xf32>
    })");
  const Node &group = find(graph, "fusion", Phase::Forward);
  EXPECT_EQ(group.tensors, 2u);
  EXPECT_EQ(group.parts, (Words{"tanh", "exp"}));
  EXPECT_EQ(group.partEdges, PartEdges({{0, 1}}));
  EXPECT_EQ(group.bytes, 96u);
}

TEST_F(GraphModelTest, EpiloguesGoOnWithTheirProduct) {
  Graph graph = build(R"(
    %x = plan.slot "input" "x" tensor<2x8xf32>
    %w = plan.slot "parameter" "w" tensor<4x8xf32>
    %b = plan.slot "parameter" "b" tensor<2x4xf32>
    %y = plan.slot "output" "step/y" tensor<2x4xf32>
    plan.kernel @k0 attributes {columns = 4 : i64} {
    ^bb0(%c: tensor<2x4xf32>, %d: tensor<2x4xf32>):
      %0 = tape.add %c, %d : tensor<2x4xf32>, tensor<2x4xf32>
      %1 = tape.tanh %0 : tensor<2x4xf32>
      tape.yield %1 : tensor<2x4xf32>
    }
    plan.program @step inputs ["x"] (%x) outputs ["y"] (%y) {
      plan.matmul(%x, %w, %b) -> (%y) sizes [2, 4, 8] strides [8, 1, 1, 8, 4, 1] batch [] epilogue @k0 {bytes = 256 : i64} loc("fc")
    })");
  const Node &product = find(graph, "matmul", Phase::Forward);
  EXPECT_EQ(product.kernel, "product");
  EXPECT_EQ(product.parts, (Words{"matmul", "add", "tanh"}));
  EXPECT_EQ(product.partEdges, PartEdges({{0, 1}, {1, 2}}));
  EXPECT_EQ(product.bytes, 256u);
  EXPECT_EQ(product.bytesSaved, (64u + 128 + 32) + (32 + 32 + 32) + (32 + 32) - 256);
}

TEST_F(GraphModelTest, GroupsReadThroughViewsAndKnowTheirSchedule) {
  Graph graph = build(R"(
    func.func @forward(%x: tensor<3x8xf32> {tape.role = "input", tape.name = "x"}) -> (tensor<3xf32>, tensor<8xf32>) {
      %0 = tape.fusion(%x) : (tensor<3x8xf32>) -> tensor<3xf32> {
      ^bb0(%a: tensor<3x8xf32>):
        %1 = tape.reduce "max" %a over [1] : tensor<3x8xf32>
        %2 = tape.broadcast_in_dim %1 to [3, 8] dims [0] : tensor<3xf32>
        %3 = tape.subtract %a, %2 : tensor<3x8xf32>, tensor<3x8xf32>
        %4 = tape.reduce "sum" %3 over [1] : tensor<3x8xf32>
        tape.yield %4 : tensor<3xf32>
      } loc("rows")
      %5 = tape.fusion(%x) : (tensor<3x8xf32>) -> tensor<8xf32> {
      ^bb0(%a: tensor<3x8xf32>):
        %6 = tape.reduce "sum" %a over [0] : tensor<3x8xf32>
        tape.yield %6 : tensor<8xf32>
      } loc("columns")
      return %0, %5 : tensor<3xf32>, tensor<8xf32>
    })");
  const Node &rows = graph.nodes[1], &columns = graph.nodes[2];
  EXPECT_EQ(rows.kernel, "row");
  EXPECT_EQ(rows.parts, (Words{"reduce max", "subtract", "reduce sum"}));
  EXPECT_EQ(rows.partEdges, PartEdges({{0, 1}, {1, 2}}));
  EXPECT_EQ(rows.bytes, 96u + 12);
  EXPECT_EQ(rows.bytesSaved, (96u + 12) + (96 + 12 + 96) + (96 + 12) - rows.bytes);
  EXPECT_EQ(rows.tensors, 1u);
  EXPECT_EQ(columns.kernel, "column");
  EXPECT_EQ(columns.bytesSaved, 0u);
}

TEST_F(GraphModelTest, InstructionsAreConnectedByWhatWasLastWritten) {
  Graph graph = build(R"(
    %x = plan.slot "input" "x" tensor<4xf32>
    %w = plan.slot "parameter" "w" tensor<4xf32>
    %t = plan.slot "arena" "" tensor<4xf32>
    %y = plan.slot "output" "step/y" tensor<4xf32>
    plan.kernel @k0_add {
    ^bb0(%a: tensor<4xf32>, %b: tensor<4xf32>):
      %0 = tape.add %a, %b : tensor<4xf32>, tensor<4xf32>
      tape.yield %0 : tensor<4xf32>
    }
    plan.program @step inputs ["x"] (%x) outputs ["y"] (%y) {
      plan.launch @k0_add(%x, %w) -> (%t) {flops = 4 : i64, bytes = 48 : i64} loc("first")
      plan.launch @k0_add(%t, %w) -> (%w) {tape.phase = "optimizer"} loc("second")
      plan.copy(%w) -> (%y) {tape.phase = "optimizer"} loc("third")
    })");
  Words edges;
  for (const Edge &edge : graph.edges)
    edges.push_back(graph.nodes[edge.from].layer + " -> " + graph.nodes[edge.to].layer);
  EXPECT_EQ(edges, (Words{"x -> first", "w -> first", "first -> second", "w -> second", "second -> third"}));
  const Node &launch = find(graph, "k0_add", Phase::Forward);
  EXPECT_EQ(launch.parts, Words{"add"});
  EXPECT_EQ(launch.flops, 4u);
  EXPECT_EQ(launch.bytes, 48u);
  EXPECT_EQ(find(graph, "copy", Phase::Optimizer).returns, Words{"y"});
}

TEST_F(GraphModelTest, AMissingFunctionIsNamedWithThoseThereAre) {
  module_ = parseSourceString<ModuleOp>(kStep, context_.get());
  Result<Graph> graph = buildGraph(*module_, "evaluate");
  ASSERT_FALSE(graph.isOk());
  EXPECT_EQ(graph.status().code(), ExitCode::Usage);
  EXPECT_EQ(graph.status().message(), "there is no function 'evaluate' after this pass; there is: step");
}

} // namespace
} // namespace tapeout::inspect
