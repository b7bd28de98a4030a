// A model file gives back the graph it was written from, and equal graphs give equal bytes.

#include "frontend/ModelFile.h"
#include "frontend/models/Models.h"
#include "tests/frontend/TestFiles.h"

#include <gtest/gtest.h>

using namespace tapeout;
using namespace tapeout::frontend;

namespace {

void expectRoundTrip(const Graph &graph) {
  TemporaryFolder folder;
  const Status written = writeModel(graph, folder / "m.tape");
  ASSERT_TRUE(written.isOk()) << written.message();
  const Result<Graph> read = readModel(folder / "m.tape");
  ASSERT_TRUE(read.isOk()) << read.status().message();
  EXPECT_EQ(*read, graph);
}

TEST(ModelFile, keepsEveryKindOfAttribute) { expectRoundTrip(smallGraph()); }

TEST(ModelFile, keepsEveryTaskElementTypeAndInitializer) {
  Graph graph = smallGraph();
  graph.task = Task::LanguageModel;
  graph.context = 7;
  graph.vocabulary = 300;
  graph.ignoreIndex = -1;
  graph.parameters.clear();
  for (size_t i = 0; i < kElementTypeCount; ++i)
    graph.parameters.push_back({"element" + std::to_string(i), {static_cast<ElementType>(i), {}}, {}});
  using Kind = Initializer::Kind;
  for (Kind kind : {Kind::Zeros, Kind::Ones, Kind::Constant, Kind::Normal, Kind::Uniform})
    graph.parameters.push_back(
        {"initializer" + std::to_string(static_cast<int>(kind)), {ElementType::F32, {3}}, {kind, 0.25, 0.5, ""}});
  expectRoundTrip(graph);
  graph.task = Task::MaskedLanguageModel;
  graph.maskToken = 299;
  expectRoundTrip(graph);
  graph.task = Task::Classification;
  graph.maskToken = -1;
  graph.context = 0;
  expectRoundTrip(graph);
}

TEST(ModelFile, keepsBuiltInModels) {
  for (const ModelInfo &model : listModels()) {
    const Result<Graph> graph = buildModel(model.name);
    ASSERT_TRUE(graph.isOk()) << graph.status().message();
    expectRoundTrip(*graph);
  }
}

TEST(ModelFile, hasTheSameBytesEveryTime) {
  TemporaryFolder folder;
  for (const char *name : {"a.tape", "b.tape"}) {
    const Result<Graph> graph = buildModel("gpt");
    ASSERT_TRUE(graph.isOk() && writeModel(*graph, folder / name).isOk());
  }
  const std::string bytes = readBytes(folder / "a.tape");
  EXPECT_EQ(bytes, readBytes(folder / "b.tape"));
  EXPECT_EQ(bytes.substr(4, 4), "TAPE");
}

TEST(ModelFile, isNotWrittenFromAMalformedGraph) {
  TemporaryFolder folder;
  Graph graph = smallGraph();
  graph.output = 6;
  const Status status = writeModel(graph, folder / "m.tape");
  EXPECT_EQ(status.code(), ExitCode::BadData);
  EXPECT_EQ(status.message(), "model file '" + (folder / "m.tape") +
                                  "': the output is value 6, but there are only 6 values; the file was not written");
  EXPECT_FALSE(std::filesystem::exists(folder / "m.tape"));
}

} // namespace
