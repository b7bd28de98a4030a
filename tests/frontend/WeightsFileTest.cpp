// A model file reads its weights from its own folder only, and finds there what its parameters need.

#include "frontend/ModelFile.h"
#include "frontend/WeightsFile.h"
#include "tests/frontend/TestFiles.h"

#include <gtest/gtest.h>

#include <sys/stat.h>

using namespace tapeout;
using namespace tapeout::frontend;

namespace {

class WeightsFileTest : public testing::Test {
protected:
  /// Writes a model whose parameter a.weight, f32[4], starts from the tensor "a" of `weightsFile`.
  void writeModelWith(const std::string &weightsFile) {
    Graph graph = smallGraph();
    graph.weightsFile = weightsFile;
    graph.parameters[0].initializer = {Initializer::Kind::External, 0, 0, "a"};
    const Status written = writeModel(graph, model);
    ASSERT_TRUE(written.isOk()) << written.message();
  }

  void writeWeights(const std::string &path, TensorDeclaration tensor = {"a", tapeout::TensorType::F32, {4}}) {
    const std::vector<uint8_t> data(256);
    int64_t elements = 1;
    for (int64_t extent : tensor.shape)
      elements *= extent;
    Result<SafetensorsWriter> writer = SafetensorsWriter::create(path, {tensor});
    ASSERT_TRUE(writer.isOk()) << writer.status().message();
    ASSERT_TRUE(writer->write(data.data(), static_cast<size_t>(elements) * elementSize(tensor.type)).isOk());
    ASSERT_TRUE(writer->commit().isOk());
  }

  void expectProblem(ExitCode code, const std::string &message) {
    const Status status = readModel(model).status();
    EXPECT_EQ(status.code(), code);
    EXPECT_EQ(status.message(), message);
  }

  void expectLinkRefused(const std::string &weightsFile) {
    expectProblem(ExitCode::BadData,
                  "model file '" + model + "': its weights file '" + (folder / weightsFile) +
                      "' is, or is reached by, a symbolic link, which a model may not follow; put the "
                      "file itself there");
  }

  TemporaryFolder folder;
  std::string model = folder / "m.tape";
  std::string weights = folder / "w.safetensors";
};

TEST_F(WeightsFileTest, isFoundBesideTheModel) {
  writeModelWith("w.safetensors");
  writeWeights(weights);
  const Result<Graph> graph = readModel(model);
  ASSERT_TRUE(graph.isOk()) << graph.status().message();
  const Result<WeightsFile> opened = openWeights(*graph, model);
  ASSERT_TRUE(opened.isOk());
  const TensorEntry *entry = opened->tensors.find("a");
  ASSERT_NE(entry, nullptr);
  EXPECT_EQ(opened->tensors.data(*entry).size(), 16u);
}

TEST_F(WeightsFileTest, isFoundInAFolderBelow) {
  std::filesystem::create_directory(folder / "weights");
  writeModelWith("weights/w.safetensors");
  writeWeights(folder / "weights/w.safetensors");
  const Result<Graph> graph = readModel(model);
  EXPECT_TRUE(graph.isOk()) << graph.status().message();
}

TEST_F(WeightsFileTest, mayBeMissing) {
  writeModelWith("w.safetensors");
  expectProblem(ExitCode::MissingInput, "model file '" + model + "': cannot open its weights file '" + weights +
                                            "': No such file or directory; put it beside the model file");
}

TEST_F(WeightsFileTest, isNotFollowedThroughLinks) {
  writeModelWith("w.safetensors");
  writeWeights(folder / "real.safetensors");
  std::filesystem::create_symlink(folder / "real.safetensors", weights);
  expectLinkRefused("w.safetensors");

  std::filesystem::create_directory(folder / "real");
  writeWeights(folder / "real/w.safetensors");
  std::filesystem::create_directory_symlink("real", folder / "link");
  writeModelWith("link/w.safetensors");
  expectLinkRefused("link/w.safetensors");
}

TEST_F(WeightsFileTest, isARegularFile) {
  writeModelWith("w.safetensors");
  ASSERT_EQ(mkfifo(weights.c_str(), 0600), 0);
  const std::string message = "model file '" + model + "': its weights file '" + weights +
                              "' cannot be read as a regular file; put the safetensors file there";
  expectProblem(ExitCode::BadData, message);
  std::filesystem::remove(weights);
  std::filesystem::create_directory(weights);
  expectProblem(ExitCode::BadData, message);
}

TEST_F(WeightsFileTest, thatIsDamagedIsRefusedByName) {
  writeModelWith("w.safetensors");
  writeBytes(weights, "no safetensors");
  const Status status = readModel(model).status();
  EXPECT_EQ(status.code(), ExitCode::BadData);
  EXPECT_NE(status.message().find(weights), std::string::npos) << status.message();
}

TEST_F(WeightsFileTest, hasTheTensorsOfTheModel) {
  const std::string remedy = "; export the model and its weights again, together";
  writeModelWith("w.safetensors");
  writeWeights(weights, {"b", tapeout::TensorType::F32, {4}});
  expectProblem(ExitCode::BadData,
                "weights file '" + weights + "': there is no tensor 'a' for parameter 'a.weight'" + remedy);
  writeWeights(weights, {"a", tapeout::TensorType::F64, {4}});
  expectProblem(ExitCode::BadData,
                "weights file '" + weights + "': tensor 'a' is F64[4], but parameter 'a.weight' is f32[4]" + remedy);
  writeWeights(weights, {"a", tapeout::TensorType::F32, {2, 2}});
  expectProblem(ExitCode::BadData,
                "weights file '" + weights + "': tensor 'a' is F32[2,2], but parameter 'a.weight' is f32[4]" + remedy);
}

} // namespace
