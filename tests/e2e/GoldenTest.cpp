// The reference interpreter against PyTorch: the same training, number by number.
#include "tests/e2e/Golden.h"

#include "runtime/base/Safetensors.h"
#include "runtime/base/Sha256.h"

#include <gtest/gtest.h>

#include <unistd.h>

#include <cmath>
#include <cstring>
#include <filesystem>

namespace tapeout::e2e {
namespace {

using codegen::reference::Precision;
using driver::Interpretation;
using driver::NamedTensors;

class GoldenTest : public testing::TestWithParam<const char *> {
protected:
  std::unique_ptr<Interpretation> create(Precision precision) {
    auto created = Interpretation::create(golden_.graph(), golden_.options(), precision);
    EXPECT_TRUE(created.isOk()) << created.status().message();
    return created.isOk() ? std::move(*created) : nullptr;
  }

  std::map<std::string, double> step(Interpretation &interpretation, int64_t number) {
    auto metrics = interpretation.step(golden_.batch(number, interpretation.inputTypes()));
    EXPECT_TRUE(metrics.isOk()) << metrics.status().message();
    return metrics.isOk() ? *metrics : std::map<std::string, double>();
  }

  Golden golden_{GetParam()};
};

/// |actual - expected| <= relative * |expected|.
void expectClose(double actual, double expected, double relative, const std::string &what) {
  EXPECT_NEAR(actual, expected, relative * std::abs(expected)) << what;
}

/// The hash over all parameters as float32, in the order of the model.
std::string parameterHash(const frontend::Graph &graph, const std::string &path) {
  auto file = Safetensors::open(path);
  EXPECT_TRUE(file.isOk()) << file.status().message();
  Sha256 hash;
  for (const frontend::Parameter &parameter : graph.parameters) {
    std::span<const uint8_t> bytes = file->data(*file->find(parameter.name));
    for (size_t at = 0; at < bytes.size(); at += sizeof(double)) {
      double value;
      std::memcpy(&value, bytes.data() + at, sizeof value);
      float rounded = static_cast<float>(value);
      hash.update(&rounded, sizeof rounded);
    }
  }
  return toHex(hash.finish());
}

/// A tensor against its summary in a golden. The floor is for gradients that are zero in exact arithmetic, such as those of
/// the keys' biases.
void expectSummary(const std::vector<double> &values, const nlohmann::json &expected, double relative, double floor) {
  double norm = expected.at("norm"), sumOfSquares = 0;
  double tolerance = std::max(relative * norm, floor);
  for (double value : values)
    sumOfSquares += value * value;
  EXPECT_NEAR(std::sqrt(sumOfSquares), norm, tolerance);

  std::vector<double> projections = expected.at("projections"), samples = expected.at("samples");
  for (size_t k = 0; k < projections.size(); ++k) {
    double projection = 0;
    for (size_t i = 0; i < values.size(); ++i)
      projection += hashWord(kProjectionStream + k, i) & 1 ? values[i] : -values[i];
    EXPECT_NEAR(projection, projections[k], tolerance) << "projection " << k;
  }
  for (size_t k = 0; k < samples.size(); ++k) {
    size_t position = hashWord(kSampleStream, k) % values.size();
    EXPECT_NEAR(values[position], samples[k], tolerance) << "element " << position;
  }
}

TEST_P(GoldenTest, ParametersStartFromTheSameBits) {
  auto interpretation = create(Precision::F64);
  ASSERT_TRUE(interpretation);
  std::string path = testing::TempDir() + "golden-" + std::to_string(getpid()) + ".safetensors";
  Status exported = interpretation->exportParameters(path);
  ASSERT_TRUE(exported.isOk()) << exported.message();
  EXPECT_EQ(parameterHash(golden_.graph(), path), golden_.initialHash());
  std::filesystem::remove(path);
}

TEST_P(GoldenTest, Float64TrainingEqualsPyTorch) {
  auto interpretation = create(Precision::F64);
  ASSERT_TRUE(interpretation);
  std::vector<double> losses = golden_.numbers("losses"), norms = golden_.numbers("grad_norms");
  for (size_t i = 0; i < losses.size() && !HasFailure(); ++i) {
    auto metrics = step(*interpretation, i);
    expectClose(metrics["loss"], losses[i], 1e-9, "loss of step " + std::to_string(i + 1));
    expectClose(metrics["grad_norm"], norms[i], 1e-9, "gradient norm of step " + std::to_string(i + 1));
  }
  const nlohmann::json statistics = golden_.statistics();
  for (const auto &[name, expected] : statistics.items()) {
    SCOPED_TRACE(name);
    expectSummary(interpretation->tensor(name).values, expected, 1e-8, 0);
  }
}

TEST_P(GoldenTest, Float32TrainingStaysNearPyTorch) {
  auto interpretation = create(Precision::F32);
  ASSERT_TRUE(interpretation);
  std::vector<double> losses = golden_.numbers("losses_float32");
  double tolerance = golden_.statistics().empty() ? 1e-5 : 1e-3; // batch norm makes small differences large
  for (size_t i = 0; i < losses.size() && !HasFailure(); ++i)
    expectClose(step(*interpretation, i)["loss"], losses[i], tolerance, "loss of step " + std::to_string(i + 1));
}

// The interpreter at level O1 against PyTorch's autocast. They round scores and biases at other places.
TEST_P(GoldenTest, Bf16TrainingStaysNearAutocast) {
  if (!golden_.has("losses_autocast"))
    GTEST_SKIP();
  driver::CompileOptions options = golden_.options();
  options.training.precision = "bf16";
  auto created = Interpretation::create(golden_.graph(), options, Precision::F32);
  ASSERT_TRUE(created.isOk()) << created.status().message();
  std::vector<double> losses = golden_.numbers("losses_autocast"), exact = golden_.numbers("losses_float32");
  EXPECT_NE(losses, exact);
  for (size_t i = 0; i < losses.size() && !HasFailure(); ++i)
    expectClose(step(**created, i)["loss"], losses[i], i == 0 ? 2e-4 : 3e-3, "loss of step " + std::to_string(i + 1));
}

TEST_P(GoldenTest, FirstGradientsEqualPyTorch) {
  auto interpretation = create(Precision::F64);
  ASSERT_TRUE(interpretation);
  auto gradients = interpretation->gradients(golden_.batch(0, interpretation->inputTypes()));
  ASSERT_TRUE(gradients.isOk()) << gradients.status().message();
  EXPECT_EQ(gradients->size(), golden_.gradients().size());
  for (const auto &[name, expected] : golden_.gradients().items()) {
    SCOPED_TRACE(name);
    ASSERT_TRUE(gradients->contains(name));
    expectSummary(gradients->at(name).values, expected, 1e-8, 1e-12);
  }
}

INSTANTIATE_TEST_SUITE_P(All, GoldenTest,
                         testing::Values("mlp", "gpt", "llama", "bert", "vit", "adam", "sgd", "momentum", "nesterov", "linear", "frozen",
                                         "regression", "lenet", "resnet18", "resnet50", "unet"),
                         [](const auto &info) { return std::string(info.param); });

} // namespace
} // namespace tapeout::e2e
