// Whatever bytes a model file has, reading it ends soon, in a graph or in a sentence.

#include "frontend/ModelFile.h"
#include "frontend/VerifyGraph.h"
#include "frontend/model_generated.h"
#include "frontend/models/Models.h"
#include "tests/frontend/TestFiles.h"

#include <gtest/gtest.h>

#include <random>
#include <sys/stat.h>

using namespace tapeout;
using namespace tapeout::frontend;

namespace {

constexpr const char *kRemedy = "; write it again with 'tapeout model' or 'tapeout import'";

class HostileModelFile : public testing::Test {
protected:
  std::string bytesOf(const Graph &graph) {
    EXPECT_TRUE(writeModel(graph, path).isOk());
    return readBytes(path);
  }

  Status read(const std::string &bytes) {
    writeBytes(path, bytes);
    return readModel(path).status();
  }

  void expectRefused(const std::string &bytes, const std::string &problem) {
    const Status status = read(bytes);
    EXPECT_EQ(status.code(), ExitCode::BadData);
    EXPECT_EQ(status.message(), "model file '" + path + "': " + problem + kRemedy);
  }

  TemporaryFolder folder;
  std::string path = folder / "m.tape";
};

TEST_F(HostileModelFile, thatIsMissingIsMissingInput) {
  const Status status = readModel(path).status();
  EXPECT_EQ(status.code(), ExitCode::MissingInput);
  EXPECT_NE(status.message().find(path), std::string::npos);
}

TEST_F(HostileModelFile, thatIsAFolderOrAPipeIsRefusedWithoutWaiting) {
  EXPECT_EQ(readModel(folder / ".").status().code(), ExitCode::MissingInput);
  ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
  EXPECT_EQ(readModel(path).status().code(), ExitCode::MissingInput);
}

TEST_F(HostileModelFile, ofAnotherKindIsNamedSo) {
  for (const std::string &bytes : {std::string(), std::string("TAPE"), std::string(5000, 'x')})
    expectRefused(bytes, "this is not a Tapeout model file");
}

TEST_F(HostileModelFile, cutOffAnywhereIsRefused) {
  const std::string bytes = bytesOf(smallGraph());
  constexpr size_t kPadding = 3; // the file may end in zeros that nothing reads
  for (size_t length = 0; length < bytes.size() - kPadding; ++length)
    EXPECT_EQ(read(bytes.substr(0, length)).code(), ExitCode::BadData) << length;
  expectRefused(bytes.substr(0, bytes.size() / 2), "the file is damaged, cut off or too large");
  expectRefused(bytes.substr(0, 10), "the file is damaged or cut off at its header");
}

TEST_F(HostileModelFile, withFlippedBitsIsReadOrRefused) {
  const Result<Graph> gpt = buildModel("gpt", {.layers = 1});
  ASSERT_TRUE(gpt.isOk());
  std::mt19937 random(1);
  int refused = 0;
  for (const std::string &good : {bytesOf(smallGraph()), bytesOf(*gpt)}) {
    for (int i = 0; i < 1000; ++i) {
      std::string bytes = good;
      for (int flips = i % 4; flips >= 0; --flips)
        bytes[random() % bytes.size()] ^= static_cast<char>(1 << random() % 8);
      const Status status = read(bytes);
      if (status.isOk())
        continue;
      ++refused;
      // A flip can name a weights file that is not there.
      EXPECT_TRUE(status.code() == ExitCode::BadData || status.code() == ExitCode::MissingInput) << status.message();
    }
  }
  EXPECT_GT(refused, 500);
}

TEST_F(HostileModelFile, withEachByteChangedIsReadOrRefused) {
  const std::string good = bytesOf(smallGraph());
  for (size_t i = 0; i < good.size(); ++i)
    for (const int value : {0x00, 0x80, 0xff}) {
      std::string bytes = good;
      bytes[i] = static_cast<char>(value);
      const Status status = read(bytes);
      EXPECT_TRUE(status.isOk() || status.code() == ExitCode::BadData || status.code() == ExitCode::MissingInput);
    }
}

//===- Files that the FlatBuffers verifier accepts ----------------------------------------------------------------===//

/// Builds a model file without the checks of writeModel().
class ModelBytes {
public:
  flatbuffers::FlatBufferBuilder builder;
  uint32_t version = kModelFormatVersion;
  file::Task task = file::Task::Regression;
  file::ElementType element = file::ElementType::F32;
  file::InitializerKind initializer = file::InitializerKind::Zeros;
  std::vector<flatbuffers::Offset<file::Node>> nodes;

  std::string finish() {
    const auto shape = builder.CreateVector<int64_t>({4});
    const auto name = builder.CreateString("x");
    const auto input = file::CreateInput(builder, name, file::CreateTensorType(builder, element, shape));
    const auto parameter = file::CreateParameter(
        builder, builder.CreateString("w"),
        file::CreateTensorType(builder, file::ElementType::F32, builder.CreateVector<int64_t>({})),
        file::CreateInitializer(builder, initializer));
    const auto inputs = builder.CreateVector(std::vector{input});
    const auto parameters = builder.CreateVector(std::vector{parameter});
    const auto nodeVector = builder.CreateVector(nodes);
    builder.Finish(file::CreateModel(builder, version, name, task, inputs, parameters, nodeVector), "TAPE");
    return {reinterpret_cast<const char *>(builder.GetBufferPointer()), builder.GetSize()};
  }

  flatbuffers::Offset<file::Node> node(const std::string &name,
                                       std::vector<flatbuffers::Offset<file::Attribute>> attributes = {}) {
    const auto text = builder.CreateString(name);
    const auto op = builder.CreateString("relu");
    const auto operands = builder.CreateVector<uint32_t>({0});
    return file::CreateNode(builder, op, text, operands, 1, builder.CreateVector(attributes));
  }
};

TEST_F(HostileModelFile, builtWithoutChecksIsReadWhenSound) {
  ModelBytes model;
  model.nodes = {model.node("a")};
  const Status status = read(model.finish());
  EXPECT_TRUE(status.isOk()) << status.message();
}

TEST_F(HostileModelFile, ofAnotherVersionIsToldWhichVersionsAreRead) {
  ModelBytes model;
  model.version = 7;
  expectRefused(model.finish(), "the file has format version 7, but this build reads version 1");
}

TEST_F(HostileModelFile, ofAnotherVersionAndLayoutIsStillToldSo) {
  flatbuffers::FlatBufferBuilder builder;
  builder.Finish(file::CreateHeader(builder, 2), "TAPE");
  expectRefused({reinterpret_cast<const char *>(builder.GetBufferPointer()), builder.GetSize()},
                "the file has format version 2, but this build reads version 1");
}

TEST_F(HostileModelFile, withUnknownEnumeratorsIsRefused) {
  ModelBytes task;
  task.task = static_cast<file::Task>(4);
  expectRefused(task.finish(), "the task has the unknown number 4");
  ModelBytes element;
  element.element = static_cast<file::ElementType>(7);
  expectRefused(element.finish(), "an element type has the unknown number 7");
  ModelBytes initializer;
  initializer.initializer = static_cast<file::InitializerKind>(255);
  expectRefused(initializer.finish(), "the kind of an initializer has the unknown number 255");
  ModelBytes attribute;
  const auto name = attribute.builder.CreateString("rate");
  attribute.nodes = {
      attribute.node("a", {file::CreateAttribute(attribute.builder, name, static_cast<file::AttributeKind>(5))})};
  expectRefused(attribute.finish(), "the kind of an attribute has the unknown number 5");
}

TEST_F(HostileModelFile, thatUnfoldsToMuchMoreIsRefused) {
  ModelBytes model; // 1 MB that reads as 2 GB
  const auto node = model.node(std::string(1 << 20, 'x'));
  model.nodes.assign(2000, node);
  expectRefused(model.finish(), "its names, shapes and attributes take more than 134217728 bytes");
}

TEST_F(HostileModelFile, withTooManyTablesIsRefused) {
  ModelBytes model;
  model.nodes.assign(limits::kTables, model.node("a"));
  expectRefused(model.finish(), "the file is damaged, cut off or too large");
}

TEST_F(HostileModelFile, withAMisalignedListIsRead) {
  for (const std::vector<uint32_t> &padding : {std::vector<uint32_t>{}, std::vector<uint32_t>{0}}) {
    ModelBytes model;
    auto &builder = model.builder;
    builder.CreateVector(padding); // one of the two lengths puts the list off an 8-byte boundary
    builder.StartVector(4, sizeof(uint32_t));
    for (uint32_t half : {0u, 6u, 0u, 5u})
      builder.PushElement(half);
    const flatbuffers::Offset<flatbuffers::Vector<int64_t>> list(builder.EndVector(2));
    const auto name = builder.CreateString("shape");
    const auto attribute = file::CreateAttribute(builder, name, file::AttributeKind::Integers, 0, 0, false, 0, list);
    model.nodes = {model.node("a", {attribute})};
    writeBytes(path, model.finish());
    const Result<Graph> graph = readModel(path);
    ASSERT_TRUE(graph.isOk()) << graph.status().message();
    EXPECT_EQ(graph->nodes[0].attributes[0].second, Attribute(std::vector<int64_t>{5, 6}));
  }
}

TEST_F(HostileModelFile, withADanglingValueIsRefused) {
  ModelBytes model;
  const auto operands = model.builder.CreateVector<uint32_t>({9});
  const auto op = model.builder.CreateString("relu");
  model.nodes = {file::CreateNode(model.builder, op, model.builder.CreateString("blocks.0"), operands)};
  expectRefused(model.finish(), "node 0 ('blocks.0') uses value 9, but only values below 2 exist before it");
}

} // namespace
