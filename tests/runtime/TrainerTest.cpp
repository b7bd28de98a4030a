// Whole runs: package, plan, executor, loader, trainer, checkpoints, signals.
#include "runtime/Trainer.h"

#include "runtime/base/Package.h"
#include "runtime/device/cpu/CpuExecutor.h"
#include "tests/runtime/TestPlans.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <unistd.h>

#include <cmath>
#include <filesystem>

namespace tapeout::rt {
namespace {

using namespace test;

/// Everything that one run of a training executable holds, from a package on disk.
struct Session {
  Session(const TemporaryFolder &folder, const plan::PlanT &source, double lr = 0.1)
      : package(std::move(*openPackage(writeTestPackage(folder, source)))),
        plan(std::move(*Plan::load(package.find(SectionKind::Plan, "cpu")->bytes))) {
    executor = std::move(*CpuExecutor::create(plan, package.find(SectionKind::CpuKernels, "cpu")->bytes,
                                           {.threads = 2, .isa = {}}));
    EXPECT_TRUE(initializeState(*executor, {}, 3).isOk());
    options.config = {{"lr", lr}, {"momentum", 0.5}, {"seed", 3}};
    EXPECT_TRUE(writeConfig(*executor, options.config).isOk());
    data = open(folder, true);
    evalData = open(folder, false);
    metrics = std::move(*MetricsWriter::create(
        {.logDirectory = folder.file("log"), .terminal = false, .out = nullptr, .resumedStep = 0}));
  }

  std::unique_ptr<DataLoader> open(const TemporaryFolder &folder, bool shuffle) {
    DataSpec spec = dataSpecOf(plan, *plan.program(shuffle ? "step" : "evaluate"));
    spec.dataPath = folder.file("x.npy");
    spec.labelsPath = folder.file("y.npy");
    spec.seed = 3;
    spec.shuffle = shuffle;
    Result<std::unique_ptr<DataLoader>> loader = DataLoader::create(spec);
    EXPECT_TRUE(loader.isOk()) << loader.status().message();
    return std::move(*loader);
  }

  Status train(uint64_t steps) {
    options.steps = steps;
    return Trainer(*executor, *data, evalData.get(), *metrics, stop, options).run();
  }

  std::vector<float> weights() const {
    uint32_t slot = plan.slotsOfKind(plan::SlotKind::Parameter).front();
    const auto *w = reinterpret_cast<const float *>(executor->address(slot));
    return {w, w + 8};
  }

  StopSignal stop;
  Package package;
  Plan plan;
  std::unique_ptr<CpuExecutor> executor;
  std::unique_ptr<DataLoader> data, evalData;
  std::unique_ptr<MetricsWriter> metrics;
  TrainerOptions options;
};

TEST(Trainer, LearnsALinearFunction) {
  TemporaryFolder folder;
  writeRegressionData(folder, 100);
  Session session(folder, regressionPlan());
  session.options.evalEvery = 50;
  Status status = session.train(300);
  ASSERT_TRUE(status.isOk()) << status.message();
  std::vector<float> w = session.weights();
  for (int j = 0; j < 8; ++j)
    EXPECT_NEAR(w[j], j + 1, 1e-3);
  Result<std::optional<double>> loss = evaluate(*session.executor, *session.evalData, session.stop);
  ASSERT_TRUE(loss.isOk()) << loss.status().message();
  EXPECT_LT(**loss, 1e-5);
}

TEST(Trainer, MetricsHoldEveryStepAndTheEvaluations) {
  TemporaryFolder folder;
  writeRegressionData(folder, 64);
  {
    Session session(folder, regressionPlan());
    session.options.evalEvery = 4;
    ASSERT_TRUE(session.train(10).isOk());
  }
  std::string text = readText(folder.file("log") + "/metrics.jsonl");
  std::vector<nlohmann::json> lines;
  for (size_t at = 0, end; (end = text.find('\n', at)) != std::string::npos; at = end + 1)
    lines.push_back(nlohmann::json::parse(text.substr(at, end - at)));
  ASSERT_EQ(lines.size(), 10u);
  for (int i = 0; i < 10; ++i) {
    EXPECT_EQ(lines[i]["step"], i + 1);
    EXPECT_EQ(lines[i].contains("eval_loss"), i == 3 || i == 7 || i == 9) << i;
  }
  EXPECT_LT(lines[9]["loss"], lines[0]["loss"]);
}

TEST(Trainer, ResumeEqualsUninterruptedBitForBit) {
  TemporaryFolder folder;
  writeRegressionData(folder, 100);
  std::vector<float> expected;
  {
    Session session(folder, regressionPlan());
    ASSERT_TRUE(session.train(23).isOk());
    expected = session.weights();
  }
  {
    Session session(folder, regressionPlan());
    session.options.checkpointDirectory = folder.file("checkpoints");
    session.options.checkpointEvery = 4;
    session.options.keep = 2;
    ASSERT_TRUE(session.train(11).isOk());
  }
  Session session(folder, regressionPlan());
  Result<LoadedCheckpoint> checkpoint = loadCheckpoint(folder.file("checkpoints"), session.plan.hash());
  ASSERT_TRUE(checkpoint.isOk()) << checkpoint.status().message();
  EXPECT_EQ(checkpoint->manifest.step, 11u);
  EXPECT_EQ(checkpoint->manifest.config.at("lr"), 0.1);
  ASSERT_TRUE(restoreState(*session.executor, *checkpoint).isOk());
  ASSERT_TRUE(session.data->seek(checkpoint->manifest.position).isOk());
  session.options.stepsDone = 11;
  ASSERT_TRUE(session.train(23).isOk());
  EXPECT_EQ(session.weights(), expected);
}

TEST(Trainer, NonFiniteLossStopsWithTheStep) {
  TemporaryFolder folder;
  writeRegressionData(folder, 64);
  Session session(folder, regressionPlan(), /*lr=*/1e30);
  Status status = session.train(100);
  EXPECT_EQ(status.code(), ExitCode::NonFiniteLoss);
  EXPECT_NE(status.message().find("the loss of step 2 is not finite (step 1 had "), std::string::npos)
      << status.message();
}

TEST(Trainer, SignalFinishesTheStepAndSaves) {
  for (auto [signal, name] : {std::pair(SIGINT, "SIGINT"), {SIGTERM, "SIGTERM"}, {SIGHUP, "SIGHUP"}, {SIGPIPE, "SIGPIPE"}}) {
    TemporaryFolder folder;
    writeRegressionData(folder, 64);
    Session session(folder, regressionPlan());
    session.options.checkpointDirectory = folder.file("checkpoints");
    kill(getpid(), signal);
    Status status = session.train(1000);
    EXPECT_EQ(status.code(), ExitCode::StoppedBySignal);
    EXPECT_NE(status.message().find(std::string(name) + " after step 1"), std::string::npos) << status.message();
    Result<LoadedCheckpoint> checkpoint = loadCheckpoint(folder.file("checkpoints"), session.plan.hash());
    ASSERT_TRUE(checkpoint.isOk()) << checkpoint.status().message();
    EXPECT_EQ(checkpoint->manifest.step, 1u);
  }
}

TEST(Trainer, SignalWithoutCheckpointDirectorySaysSo) {
  TemporaryFolder folder;
  writeRegressionData(folder, 64);
  Session session(folder, regressionPlan());
  kill(getpid(), SIGTERM);
  Status status = session.train(1000);
  EXPECT_EQ(status.code(), ExitCode::StoppedBySignal);
  EXPECT_NE(status.message().find("nothing is saved"), std::string::npos);
}

TEST(Trainer, TraceNamesLayersAndKernels) {
  TemporaryFolder folder;
  writeRegressionData(folder, 64);
  Session session(folder, regressionPlan());
  session.options.tracePath = folder.file("trace.json");
  ASSERT_TRUE(session.train(10).isOk());
  nlohmann::json trace = nlohmann::json::parse(readText(folder.file("trace.json")));
  const nlohmann::json &events = trace["traceEvents"];
  ASSERT_EQ(events.size(), 6 * Trainer::kTracedSteps);
  EXPECT_EQ(events[0]["name"], "linear");
  EXPECT_EQ(events[0]["cat"], "forward");
  EXPECT_EQ(events[0]["args"]["kernel"], "matmul 16 x 1 x 8");
  EXPECT_EQ(events[4]["args"]["kernel"], "sgd");
  EXPECT_EQ(events[0]["args"]["step"], 2);
  EXPECT_EQ(events[23]["args"]["step"], 5);
  EXPECT_GE(events[23]["ts"], events[0]["ts"]);
}

TEST(Trainer, TraceBeginsWhereItIsTold) {
  TemporaryFolder folder;
  writeRegressionData(folder, 64);
  const std::tuple<uint64_t, uint64_t, int, int> cases[] = {{0, 1, 1, 1}, {0, 3, 2, 3}, {7, 9, 7, 9}, {4, 20, 4, 7}};
  for (auto [from, steps, first, last] : cases) {
    Session session(folder, regressionPlan());
    session.options.tracePath = folder.file("trace.json");
    session.options.traceFrom = from;
    ASSERT_TRUE(session.train(steps).isOk());
    nlohmann::json events = nlohmann::json::parse(readText(folder.file("trace.json")))["traceEvents"];
    EXPECT_EQ(events.front()["args"]["step"], first) << from << " of " << steps;
    EXPECT_EQ(events.back()["args"]["step"], last) << from << " of " << steps;
  }
}

TEST(Trainer, PlanWithoutStepIsRefused) {
  TemporaryFolder folder;
  writeRegressionData(folder, 64);
  Session session(folder, regressionPlan());
  plan::PlanT source = regressionPlan();
  source.programs.erase(source.programs.begin());
  Plan plan = std::move(*Plan::load(serialize(source)));
  std::unique_ptr<CpuExecutor> executor = std::move(*CpuExecutor::create(plan, kernelBytes(), {}));
  session.options.steps = 1;
  Status status = Trainer(*executor, *session.data, nullptr, *session.metrics, session.stop, session.options).run();
  EXPECT_EQ(status.code(), ExitCode::BadData);
}

} // namespace
} // namespace tapeout::rt
