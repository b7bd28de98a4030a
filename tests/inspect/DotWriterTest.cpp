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
