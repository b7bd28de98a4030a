// DOT text: escaping, grouping, colours.
#include "tools/inspect/DotWriter.h"
#include "tools/inspect/Graphviz.h"

#include "gtest/gtest.h"

namespace tapeout::inspect {
namespace {

Node makeNode(const std::string &title, const std::string &layer, Phase phase = Phase::Forward) {
  Node node;
  node.title = title;
  node.layer = layer;
  node.phase = phase;
  return node;
}

TEST(DotWriterTest, EscapesMarkupControlCharactersAndBrokenUtf8) {
  EXPECT_EQ(escapeLabel("a<b>&\"\\"), "a&lt;b&gt;&amp;&quot;&#92;");
  EXPECT_EQ(escapeLabel("a\nb\tc\x7f"), "a b c ");
  EXPECT_EQ(escapeLabel(std::string("a\0b", 3)), "a b");
  EXPECT_EQ(escapeLabel("\xc3\xa9 \xe2\x82\xac"), "\xc3\xa9 \xe2\x82\xac");
  EXPECT_EQ(escapeLabel("\xff\xc3(\xe0\x80\x80"), "\uFFFD\uFFFD(\uFFFD\uFFFD\uFFFD");
  EXPECT_EQ(escapeLabel("abcdef", 3), "abc…");
}

TEST(DotWriterTest, HostileNamesStayInsideTheirLabels) {
  Graph graph;
  graph.title = "evil \" ]; } <b>";
  const std::string names[] = {
      "a\"]; n9 [label=\"x", "</TD></TABLE>>]; evil", "x\ny.z\r\n.\\N", "\xff\xfe.<!-- -->", "...", "&#60;", "&amp"};
  for (const std::string &name : names) {
    graph.nodes.push_back(makeNode(name, name));
    graph.nodes.push_back(makeNode("add", name, Phase::Backward));
    graph.nodes.back().reads = graph.nodes.back().savedReads = graph.nodes.back().returns = {name};
    graph.edges.push_back({graph.nodes.size() - 2, graph.nodes.size() - 1, name, {name}});
    graph.repetitions[{Phase::Forward, name}] = {name, 3};
  }
  std::string dot = writeDot(graph);
  EXPECT_EQ(dot.find("</TABLE>>]; evil"), std::string::npos);
  Result<std::string> svg = renderSvg(dot);
  ASSERT_TRUE(svg.isOk()) << svg.status().message() << "\n" << dot;
  size_t nodes = 0;
  for (size_t at = svg->find("class=\"node\""); at != std::string::npos; at = svg->find("class=\"node\"", at + 1))
    ++nodes;
  EXPECT_EQ(nodes, graph.nodes.size());
}

TEST(DotWriterTest, LayersAreNestedBoxesAndRepetitionsSayHowOften) {
  Graph graph;
  graph.nodes = {makeNode("dot_general", "blocks.0.mlp.fc"), makeNode("gelu", "blocks.0.mlp"),
                 makeNode("add", "blocks.0")};
  graph.repetitions[{Phase::Forward, "blocks.0"}] = {"blocks.11", 12};
  std::string dot = writeDot(graph);
  EXPECT_NE(dot.find("label=<<B>blocks.0 … blocks.11  ×12</B>>"), std::string::npos) << dot;
  EXPECT_NE(dot.find("label=<mlp>"), std::string::npos) << dot;
  EXPECT_NE(dot.find(">fc</FONT>"), std::string::npos) << dot;
}

TEST(DotWriterTest, KernelsAreBoxesAroundTheirOps) {
  Graph graph;
  graph.title = "@step";
  for (Phase phase : {Phase::Forward, Phase::Backward}) {
    Node kernel = makeNode("fusion", "act", phase);
    kernel.kind = NodeKind::Kernel;
    kernel.kernel = "elementwise";
    kernel.parts = {"tanh", "exp"};
    kernel.partEdges = {{0, 1}};
    kernel.bytesSaved = 6400;
    kernel.count = 2;
    graph.nodes.push_back(kernel);
  }
  graph.nodes.push_back(makeNode("dot_general", "fc"));
  graph.nodes.push_back(makeNode("dot_general", "fc2"));
  graph.edges = {{2, 0, "[4]", {}}, {0, 3, "[8]", {}}, {2, 1, "[9]", {}}};
  std::string dot = writeDot(graph);
  for (const char *part : {"subgraph cluster_n0 {", "<B>elementwise kernel, saves 3.2 kB</B>", "n0_0 [label=<tanh>", "n0_0 -> n0_1;",
                           "n1_1 -> n1_0 [dir=back];", "n2 -> n0_0 [lhead=cluster_n0, label=<[4]>];",
                           "n0_1 -> n3 [ltail=cluster_n0, label=<[8]>];", "n1_0 -> n2 [ltail=cluster_n1, dir=back, label=<[9]>];"})
    EXPECT_NE(dot.find(part), std::string::npos) << part << "\n" << dot;
  Result<std::string> svg = renderSvg(dot);
  EXPECT_TRUE(svg.isOk()) << svg.status().message();

  for (int i = 0; i < 150; ++i) // too many ops to draw each
    graph.nodes.push_back(makeNode("add", "b"));
  dot = writeDot(graph);
  EXPECT_EQ(dot.find("cluster_n0"), std::string::npos);
  EXPECT_NE(dot.find("<B>elementwise kernel, saves 3.2 kB</B></TD></TR><TR><TD>tanh · exp</TD>"), std::string::npos) << dot;
}

TEST(DotWriterTest, ValuesInLowPrecisionHaveAColourOfTheirOwn) {
  Graph graph;
  graph.nodes = {makeNode("convert", "a"), makeNode("dot_general", "b"), makeNode("add", "c")};
  graph.edges = {{0, 1, "bf16 [4]", {}}, {1, 2, "[4]", {}}};
  std::string dot = writeDot(graph);
  EXPECT_NE(dot.find("n0 -> n1 [color=\"#b4560b\", fontcolor=\"#b4560b\", label=<bf16 [4]>];"), std::string::npos) << dot;
  EXPECT_NE(dot.find("n1 -> n2 [label=<[4]>];"), std::string::npos) << dot;
  EXPECT_NE(dot.find("━ bf16 or f16"), std::string::npos) << dot;
  graph.edges.erase(graph.edges.begin());
  EXPECT_EQ(writeDot(graph).find("bf16"), std::string::npos);
}

TEST(DotWriterTest, TheBackwardPassRunsUpwards) {
  Graph graph;
  graph.nodes = {makeNode("add", "a"), makeNode("add", "b"), makeNode("add", "b", Phase::Backward),
                 makeNode("add", "a", Phase::Backward)};
  graph.edges = {{0, 1, "", {}}, {2, 3, "", {}}};
  std::string dot = writeDot(graph);
  EXPECT_NE(dot.find("n0 -> n1 [label"), std::string::npos) << dot;
  EXPECT_NE(dot.find("n3 -> n2 [dir=back"), std::string::npos) << dot;
}

} // namespace
} // namespace tapeout::inspect
