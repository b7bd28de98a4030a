// Persistent memory: recipes, weight files, checkpoints, config.
#include "runtime/State.h"

#include "runtime/base/BFloat16.h"
#include "runtime/base/Philox.h"
#include "runtime/device/cpu/CpuExecutor.h"
#include "tests/runtime/TestPlans.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

namespace tapeout::rt {
namespace {

using namespace test;

struct Machine {
  explicit Machine(const plan::PlanT &source) : plan(std::move(*Plan::load(serialize(source)))) {
    executor = std::move(*CpuExecutor::create(plan, kernelBytes(), {.threads = 2, .isa = {}}));
  }
  template <typename T> T *at(const std::string &name) {
    for (uint32_t i = 0; i < plan.slotCount(); ++i)
      if (plan.slot(i).name()->string_view() == name)
        return reinterpret_cast<T *>(executor->address(i));
    return nullptr;
  }
  Plan plan;
  std::unique_ptr<CpuExecutor> executor;
};

plan::PlanT planWithRecipe(plan::InitializerKind kind, double a, double b, uint64_t stream) {
  plan::PlanT plan = bigramPlan();
  plan::InitializerT &recipe = *plan.slots[slotIndex(plan, "table")]->initializer;
  recipe.kind = kind;
  recipe.a = a;
  recipe.b = b;
  recipe.stream = stream;
  return plan;
}

TEST(State, RecipesAreKeyedBySeedStreamAndElement) {
  Machine machine(planWithRecipe(plan::InitializerKind::Normal, 1, 2, 9));
  ASSERT_TRUE(initializeState(*machine.executor, {}, 5).isOk());
  RandomStream stream{5, 9};
  for (uint64_t i : {0u, 1u, 65535u, 4097u})
    EXPECT_EQ(machine.at<float>("table")[i], static_cast<float>(1 + 2 * stream.normal(i)));
  Machine uniform(planWithRecipe(plan::InitializerKind::Uniform, -1, 3, 2));
  ASSERT_TRUE(initializeState(*uniform.executor, {}, 5).isOk());
  EXPECT_EQ(uniform.at<float>("table")[777], static_cast<float>(-1 + 4 * RandomStream{5, 2}.uniform(777)));
}

TEST(State, SimpleRecipes) {
  using Kind = plan::InitializerKind;
  for (auto [kind, expected] : {std::pair(Kind::Zeros, 0.0f), {Kind::Ones, 1.0f}, {Kind::Constant, 2.5f}}) {
    Machine machine(planWithRecipe(kind, 2.5, 0, 0));
    ASSERT_TRUE(initializeState(*machine.executor, {}, 5).isOk());
    EXPECT_EQ(machine.at<float>("table")[12345], expected);
  }
}

TEST(State, EmbeddedWeightsComeFromTheSection) {
  TemporaryFolder folder;
  std::vector<uint16_t> values(65536, floatToBfloat16(1.5f));
  auto writer = SafetensorsWriter::create(folder.file("w"), {{"table", TensorType::BF16, {256, 256}}});
  ASSERT_TRUE(writer->write(values.data(), values.size() * 2).isOk() && writer->commit().isOk());
  std::string bytes = readText(folder.file("w"));
  std::span<const uint8_t> section(reinterpret_cast<const uint8_t *>(bytes.data()), bytes.size());
  Machine machine(planWithRecipe(plan::InitializerKind::Embedded, 0, 0, 0));
  ASSERT_TRUE(initializeState(*machine.executor, section, 5).isOk());
  EXPECT_EQ(machine.at<float>("table")[65535], 1.5f);
  Status status = initializeState(*machine.executor, {}, 5);
  EXPECT_EQ(status.code(), ExitCode::BadData);
  EXPECT_NE(status.message().find("'table'"), std::string::npos);
}

TEST(State, ConstantsAndZeroes) {
  plan::PlanT source = regressionPlan();
  plan::SlotT &y = *source.slots[slotIndex(source, "labels")];
  y.kind = plan::SlotKind::Constant;
  y.constant.assign(64, 7);
  source.programs[0]->inputs.pop_back();
  source.programs[1]->inputs.pop_back();
  Machine machine(source);
  *machine.at<int64_t>("step") = 3;
  ASSERT_TRUE(initializeState(*machine.executor, {}, 5).isOk());
  EXPECT_EQ(machine.at<uint8_t>("labels")[63], 7);
  EXPECT_EQ(*machine.at<int64_t>("step"), 0);
}

TEST(State, ExportedParametersComeBack) {
  TemporaryFolder folder;
  Machine first(regressionPlan()), second(regressionPlan());
  ASSERT_TRUE(initializeState(*first.executor, {}, 1).isOk());
  ASSERT_TRUE(initializeState(*second.executor, {}, 2).isOk());
  ASSERT_TRUE(exportParameters(*first.executor, folder.file("w.safetensors")).isOk());
  EXPECT_NE(std::memcmp(first.at<float>("linear.weight"), second.at<float>("linear.weight"), 32), 0);
  Status status = importParameters(*second.executor, folder.file("w.safetensors"));
  ASSERT_TRUE(status.isOk()) << status.message();
  EXPECT_EQ(std::memcmp(first.at<float>("linear.weight"), second.at<float>("linear.weight"), 32), 0);
}

TEST(State, ImportConvertsTypes) {
  TemporaryFolder folder;
  std::vector<double> values(8, 0.1);
  auto writer = SafetensorsWriter::create(folder.file("w"), {{"linear.weight", TensorType::F64, {8, 1}}});
  ASSERT_TRUE(writer->write(values.data(), 64).isOk() && writer->commit().isOk());
  Machine machine(regressionPlan());
  ASSERT_TRUE(importParameters(*machine.executor, folder.file("w")).isOk());
  EXPECT_EQ(machine.at<float>("linear.weight")[7], 0.1f);
}

TEST(State, ImportListsEverythingThatDoesNotFit) {
  TemporaryFolder folder;
  auto writer = SafetensorsWriter::create(
      folder.file("w"),
      {{"linear.weight", TensorType::F32, {1, 8}}, {"extra.a", TensorType::F32, {}}, {"extra.b", TensorType::F32, {}}});
  std::vector<float> values(10);
  ASSERT_TRUE(writer->write(values.data(), 40).isOk() && writer->commit().isOk());
  plan::PlanT source = regressionPlan();
  plan::SlotT &momentum = *source.slots[slotIndex(source, "sgd.momentum/linear.weight")];
  momentum.kind = plan::SlotKind::Parameter;
  momentum.name = "second";
  momentum.initializer = std::make_unique<plan::InitializerT>();
  Machine machine(source);
  Status status = importParameters(*machine.executor, folder.file("w"));
  EXPECT_EQ(status.code(), ExitCode::BadData);
  for (const char *part :
       {"1 missing: second", "linear.weight (F32 [1, 8] instead of [8, 1])", "2 unknown: extra.a, extra.b"})
    EXPECT_NE(status.message().find(part), std::string::npos) << status.message();
  EXPECT_EQ(importParameters(*machine.executor, folder.file("none")).code(), ExitCode::MissingInput);
}

TEST(State, RestoreChecksNamesShapesAndTypes) {
  Machine machine(regressionPlan());
  ASSERT_TRUE(initializeState(*machine.executor, {}, 1).isOk());
  std::vector<float> four(8, 4.0f);
  LoadedCheckpoint checkpoint;
  CheckpointState state = std::move(*checkpointState(*machine.executor));
  checkpoint.tensors = state.tensors;
  ASSERT_EQ(checkpoint.tensors.size(), 3u);
  for (CheckpointTensor &tensor : checkpoint.tensors)
    if (tensor.name == "linear.weight")
      tensor.bytes = {reinterpret_cast<const uint8_t *>(four.data()), 32};
  ASSERT_TRUE(restoreState(*machine.executor, checkpoint).isOk());
  EXPECT_EQ(machine.at<float>("linear.weight")[0], 4.0f);
  checkpoint.tensors[0].shape.push_back(1);
  checkpoint.tensors[1].name = "other";
  Status status = restoreState(*machine.executor, checkpoint);
  EXPECT_EQ(status.code(), ExitCode::BadData);
  EXPECT_NE(status.message().find("1 missing"), std::string::npos);
  EXPECT_NE(status.message().find("1 unknown: other"), std::string::npos);
}

TEST(State, ConfigTakesDefaultsAndValues) {
  Machine machine(regressionPlan());
  HyperparameterValues values = defaultHyperparameters(machine.plan);
  EXPECT_EQ(values.size(), 3u);
  values["seed"] = 12;
  ASSERT_TRUE(writeConfig(*machine.executor, values).isOk());
  const double *config = machine.at<double>("config");
  EXPECT_EQ(config[static_cast<size_t>(Hyperparameter::LearningRate)], 0.1);
  EXPECT_EQ(config[static_cast<size_t>(Hyperparameter::Momentum)], 0.5);
  EXPECT_EQ(config[static_cast<size_t>(Hyperparameter::Seed)], 12);
  EXPECT_EQ(config[static_cast<size_t>(Hyperparameter::Beta1)], 0);
}

TEST(State, HyperparametersHaveRanges) {
  EXPECT_TRUE(checkHyperparameter("lr", 0.5, "--lr").isOk());
  EXPECT_TRUE(checkHyperparameter("seed", 9007199254740991.0, "--seed").isOk());
  for (auto [name, value] : {std::pair("lr", -1.0),
                             {"lr", NAN},
                             {"beta2", 1.0},
                             {"momentum", 1.5},
                             {"schedule", 3.0},
                             {"schedule", 0.5},
                             {"seed", 9007199254740992.0},
                             {"warmup_steps", 1.5},
                             {"min_lr_ratio", 2.0},
                             {"unknown", 1.0}})
    EXPECT_EQ(checkHyperparameter(name, value, "--x").code(), ExitCode::BadConfig) << name << value;
}

} // namespace
} // namespace tapeout::rt
