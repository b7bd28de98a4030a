// Whole trainings where steps are queued: the numbers belong to the right steps, and what happens between steps waits.
#include "runtime/Trainer.h"
#include "tests/runtime/cuda/FakeDevice.h"

#include <nlohmann/json.hpp>

#include <cmath>
#include <csignal>
#include <filesystem>

#include <unistd.h>

namespace tapeout::rt {
namespace {

using namespace test;

class CudaTrainer : public testing::Test {
protected:
  void SetUp() override {
    resetFakeCuda();
    writeRegressionData(folder, 100);
  }

  std::unique_ptr<DataLoader> open(const Plan &plan, bool shuffle) {
    DataSpec spec = dataSpecOf(plan, *plan.program(shuffle ? "step" : "evaluate"));
    spec.dataPath = folder.file("x.npy");
    spec.labelsPath = folder.file("y.npy");
    spec.shuffle = shuffle;
    return std::move(*DataLoader::create(spec));
  }

  /// A training of `steps` by an executor of its own, on the fake GPU or on the processor. Leaves its weights and its metrics.
  Status train(const plan::PlanT &source, TrainerOptions options, uint64_t steps, double lr = 0.1) {
    StopSignal stop; // before the first thread
    Plan plan = std::move(*Plan::load(serialize(source)));
    std::unique_ptr<Executor> executor;
    if (source.target == "cuda")
      executor = std::move(*CudaExecutor::create(plan, fakeLibraries(), {.threads = 1}));
    else
      executor = std::move(*createExecutor(plan, kernelBytes(), {.threads = 1}));
    options.steps = steps;
    options.config = {{"lr", lr}, {"momentum", 0.5}};
    EXPECT_TRUE(initializeState(*executor, {}, 3).isOk() && writeConfig(*executor, options.config).isOk());
    auto metrics = std::move(*MetricsWriter::create(
        {.logDirectory = folder.file("log"), .terminal = false, .out = nullptr, .resumedStep = 0}));
    auto data = open(plan, true), evalData = open(plan, false);
    if (options.stepsDone > 0) {
      LoadedCheckpoint checkpoint = std::move(*loadCheckpoint(options.checkpointDirectory, plan.hash()));
      EXPECT_TRUE(restoreState(*executor, checkpoint).isOk() && data->seek(checkpoint.manifest.position).isOk());
    }
    if (signal != 0)
      kill(getpid(), signal);
    Status status = Trainer(*executor, *data, evalData.get(), *metrics, stop, options).run();
    Result<SlotBytes> bytes = executor->read(plan.slotsOfKind(plan::SlotKind::Parameter).front());
    const auto *w = reinterpret_cast<const float *>(bytes->get().data());
    weights.assign(w, w + 8);
    metrics.reset();
    lines.clear();
    std::string text = readText(folder.file("log") + "/metrics.jsonl");
    for (size_t at = 0, end; (end = text.find('\n', at)) != std::string::npos; at = end + 1)
      lines.push_back(nlohmann::json::parse(text.substr(at, end - at)));
    return status;
  }

  TemporaryFolder folder;
  int signal = 0;
  std::vector<float> weights;
  std::vector<nlohmann::json> lines;
};

TEST_F(CudaTrainer, ReportsTheNumbersOfEveryStep) {
  ASSERT_TRUE(train(regressionPlan(), {.evalEvery = 4}, 10).isOk());
  std::vector<nlohmann::json> expected = lines;
  Status status = train(cudaRegressionPlan(), {.evalEvery = 4}, 10);
  ASSERT_TRUE(status.isOk()) << status.message();
  ASSERT_EQ(lines.size(), 10u);
  for (int i = 0; i < 10; ++i) {
    EXPECT_EQ(lines[i]["step"], i + 1);
    EXPECT_NEAR(lines[i]["loss"].get<double>(), expected[i]["loss"].get<double>(), 1e-4) << i;
    ASSERT_EQ(lines[i].contains("eval_loss"), expected[i].contains("eval_loss")) << i;
    EXPECT_NEAR(lines[i].value("eval_loss", 0.0), expected[i].value("eval_loss", 0.0), 1e-4) << i;
  }
}

TEST_F(CudaTrainer, QueuesAStepWhileTheOneBeforeRuns) {
  ASSERT_TRUE(train(cudaRegressionPlan(), {}, 50).isOk());
  // Waiting for the stream itself would be waiting for all that is queued; setting up and reading the weights does so, and the
  // only evaluation is at the end.
  EXPECT_LT(fakeCuda().calls["cuStreamSynchronize"], 30);
}

TEST_F(CudaTrainer, NonFiniteLossNamesItsStep) {
  Status status = train(cudaRegressionPlan(), {}, 100, /*lr=*/1e30);
  EXPECT_EQ(status.code(), ExitCode::NonFiniteLoss);
  EXPECT_NE(status.message().find("the loss of step 2 is not finite (step 1 had "), std::string::npos) << status.message();
}

TEST_F(CudaTrainer, ResumeEqualsUninterruptedBitForBit) {
  ASSERT_TRUE(train(cudaRegressionPlan(), {}, 23).isOk());
  std::vector<float> expected = weights;
  TrainerOptions options{.checkpointDirectory = folder.file("c"), .checkpointEvery = 4};
  ASSERT_TRUE(train(cudaRegressionPlan(), options, 11).isOk());
  options.stepsDone = 11;
  Status status = train(cudaRegressionPlan(), options, 23);
  ASSERT_TRUE(status.isOk()) << status.message();
  EXPECT_EQ(weights, expected);
}

TEST_F(CudaTrainer, SignalFinishesTheStepAndSaves) {
  signal = SIGTERM;
  Status status = train(cudaRegressionPlan(), {.checkpointDirectory = folder.file("c")}, 1000);
  EXPECT_EQ(status.code(), ExitCode::StoppedBySignal);
  EXPECT_NE(status.message().find("SIGTERM after step 1"), std::string::npos) << status.message();
}

TEST_F(CudaTrainer, TracesSteps) {
  ASSERT_TRUE(train(cudaRegressionPlan(), {.tracePath = folder.file("trace.json")}, 10).isOk());
  nlohmann::json trace = nlohmann::json::parse(readText(folder.file("trace.json")));
  ASSERT_EQ(trace["traceEvents"].size(), 6 * Trainer::kTracedSteps);
  EXPECT_EQ(trace["traceEvents"][0]["name"], "linear");
  EXPECT_EQ(trace["traceEvents"][0]["args"]["instruction"], "matmul 16 x 1 x 8");
  EXPECT_EQ(trace["traceEvents"][0]["args"]["kernel"], "fake_product");
  EXPECT_EQ(trace["traceEvents"][0]["args"]["step"], 2);
  EXPECT_NEAR(trace["traceEvents"][0]["dur"].get<double>(), 3000, 1);
  EXPECT_EQ(trace["graphs"], (nlohmann::json{{"inside", 24}, {"outside", 0}, {"host_reads", 0}}));
}

TEST_F(CudaTrainer, TracesStepsThatEvaluationsInterrupt) {
  Status status = train(cudaRegressionPlan(), {.evalEvery = 2, .tracePath = folder.file("trace.json")}, 10);
  ASSERT_TRUE(status.isOk()) << status.message();
  nlohmann::json trace = nlohmann::json::parse(readText(folder.file("trace.json")));
  ASSERT_EQ(trace["traceEvents"].size(), 6 * Trainer::kTracedSteps);
  EXPECT_EQ(trace["traceEvents"].back()["args"]["step"], 5);
  EXPECT_EQ(trace["graphs"]["outside"], 0);
}

} // namespace
} // namespace tapeout::rt
