// Recorded runs on the fake GPU: what CUPTI says about replayed graphs, and what events say where there is none.
#include "runtime/device/cuda/CudaRoofs.h"
#include "runtime/device/cuda/GraphRecording.h"
#include "tests/runtime/cuda/FakeDevice.h"

#include <dlfcn.h>

namespace tapeout::rt {
namespace {

using namespace test;

class CudaRecording : public testing::Test {
protected:
  void SetUp() override { resetFakeCuda(); }
};

double milliseconds(const Activity &activity) {
  return std::chrono::duration<double, std::milli>(activity.end - activity.begin).count();
}

/// Steps after a first one that is not recorded.
Result<Recording> record(CudaMachine &machine, int steps, bool warm = true) {
  EXPECT_TRUE(machine.status.isOk()) << machine.status.message();
  if (warm)
    TAPEOUT_RETURN_IF_ERROR(machine.step());
  TAPEOUT_RETURN_IF_ERROR(machine.executor->startRecording());
  for (int i = 0; i < steps; ++i)
    TAPEOUT_RETURN_IF_ERROR(machine.step());
  return machine.executor->finishRecording();
}

void expectTimes(const plan::Program &step, const RecordedRun &run, std::initializer_list<double> expected) {
  EXPECT_EQ(run.program, &step);
  ASSERT_EQ(run.activities.size(), expected.size());
  for (size_t i = 0; i < expected.size(); ++i) {
    EXPECT_EQ(run.activities[i].instruction, step.instructions()->Get(i)) << i;
    EXPECT_NEAR(milliseconds(run.activities[i]), expected.begin()[i], 1e-3) << i;
    EXPECT_TRUE(i == 0 || run.activities[i].begin == run.activities[i - 1].end) << i;
  }
}

// The fake's first algorithm takes 3 ms, a kernel 1 ms.
TEST_F(CudaRecording, ReplaysWhileCuptiLooks) {
  CudaMachine machine(cudaRegressionPlan());
  Result<Recording> recording = record(machine, 3);
  ASSERT_TRUE(recording.isOk()) << recording.status().message();
  EXPECT_EQ(fakeCuda().calls["cuGraphLaunch"], 3);
  EXPECT_EQ(recording->means, "CUPTI 13.0, while graphs were replayed");
  ASSERT_EQ(recording->runs.size(), 3u);
  for (const RecordedRun &run : recording->runs)
    expectTimes(*machine.plan.program("step"), run, {3, 1, 1, 3, 1, 1});
  EXPECT_EQ(recording->runs[2].activities[0].kernel, "fake_product");
  EXPECT_EQ(recording->runs[2].activities[4].kernel, "sgd");
  EXPECT_LE(recording->runs[0].activities[5].end, recording->runs[1].activities[0].begin);
  EXPECT_EQ(recording->graphs->inside, 18u);
  EXPECT_EQ(recording->graphs->outside, 0u);
  EXPECT_EQ(recording->graphs->hostReads, 0u);
}

TEST_F(CudaRecording, GivesSeveralKernelsToTheirInstruction) {
  fakeCuda().kernelsPerProduct = 3;
  CudaMachine machine(cudaRegressionPlan());
  Result<Recording> recording = record(machine, 2);
  ASSERT_TRUE(recording.isOk()) << recording.status().message();
  const RecordedRun &run = recording->runs[1];
  ASSERT_EQ(run.activities.size(), 10u);
  const size_t instructions[] = {0, 0, 0, 1, 2, 3, 3, 3, 4, 5};
  for (size_t i = 0; i < 10; ++i)
    EXPECT_EQ(run.activities[i].instruction, machine.plan.program("step")->instructions()->Get(instructions[i])) << i;
  EXPECT_EQ(run.activities[7].kernel, "fake_reduction");
}

TEST_F(CudaRecording, FindsKernelsOutsideOfTheGraph) {
  fakeCuda().strayKernel = true;
  CudaMachine machine(cudaRegressionPlan());
  Result<Recording> recording = record(machine, 3);
  ASSERT_TRUE(recording.isOk()) << recording.status().message();
  EXPECT_EQ(recording->graphs->inside, 18u);
  EXPECT_EQ(recording->graphs->outside, 3u);
}

TEST_F(CudaRecording, FindsCopiesToTheHostInTheGraph) {
  fakeCuda().readsInGraph = true;
  CudaMachine machine(cudaRegressionPlan());
  Result<Recording> recording = record(machine, 3);
  ASSERT_TRUE(recording.isOk()) << recording.status().message();
  EXPECT_EQ(recording->graphs->hostReads, 6u) << "one behind each of two products";
  EXPECT_EQ(recording->graphs->outside, 0u);
}

TEST_F(CudaRecording, StepsGoOnAsBefore) {
  auto weightsAfter = [](bool recorded) {
    CudaMachine machine(cudaRegressionPlan());
    for (int i = 0; i < 6; ++i) {
      EXPECT_TRUE(!recorded || i != 2 || machine.executor->startRecording().isOk());
      EXPECT_TRUE(machine.fillInputs().isOk() && machine.step().isOk());
      EXPECT_TRUE(!recorded || i != 3 || machine.executor->finishRecording().isOk());
    }
    return machine.floats("linear.weight");
  };
  EXPECT_EQ(weightsAfter(true), weightsAfter(false));
  EXPECT_EQ(fakeCuda().calls["cuStreamBeginCapture_v2"], 4) << "three with the recording, before, during and after it";
  EXPECT_EQ(fakeCuda().calls["cuptiActivityEnable"], 3);
  EXPECT_EQ(fakeCuda().calls["cuptiActivityDisable"], 6) << "when it ended, and again when it went";
}

TEST_F(CudaRecording, OtherProgramsHaveRunsOfTheirOwn) {
  CudaMachine machine(cudaRegressionPlan());
  const plan::Program &step = *machine.plan.program("step"), &evaluate = *machine.plan.program("evaluate");
  ASSERT_TRUE(machine.step().isOk() && machine.executor->startRecording().isOk());
  for (const plan::Program *program : {&step, &evaluate, &step, &evaluate, &step}) // the first evaluation is no graph
    ASSERT_TRUE(machine.executor->run(*program).isOk());
  Result<Recording> recording = machine.executor->finishRecording();
  ASSERT_TRUE(recording.isOk()) << recording.status().message();
  ASSERT_EQ(recording->runs.size(), 5u);
  for (size_t i : {0, 2, 4})
    expectTimes(step, recording->runs[i], {3, 1, 1, 3, 1, 1});
  for (size_t i : {1, 3})
    EXPECT_EQ(recording->runs[i].program, &evaluate);
  EXPECT_EQ(recording->runs[1].activities.size(), recording->runs[3].activities.size());
  EXPECT_EQ(recording->graphs->outside, 0u) << "the first evaluation is not recorded by CUPTI";
}

TEST_F(CudaRecording, EventsWhereThereIsNoCupti) {
  fakeCuda().cuptiVersion = 140000;
  CudaMachine machine(cudaRegressionPlan());
  Result<Recording> recording = record(machine, 2);
  ASSERT_TRUE(recording.isOk()) << recording.status().message();
  EXPECT_EQ(recording->means, "events between instructions, which were launched one by one, because the records of CUPTI's "
                              "version 140000 are not known; take that of CUDA 12.1 to 13.4");
  EXPECT_FALSE(recording->graphs);
  EXPECT_EQ(fakeCuda().calls["cuGraphLaunch"], 0);
  ASSERT_EQ(recording->runs.size(), 2u);
  expectTimes(*machine.plan.program("step"), recording->runs[1], {3, 1, 1, 3, 1, 1});
}

TEST_F(CudaRecording, EventsWhereNothingIsReplayed) {
  CudaMachine first(cudaRegressionPlan());
  Result<Recording> recording = record(first, 1, /*warm=*/false);
  ASSERT_TRUE(recording.isOk()) << recording.status().message();
  EXPECT_TRUE(recording->means.ends_with("as a program's first run always is")) << recording->means;
  expectTimes(*first.plan.program("step"), recording->runs[0], {3, 1, 1, 3, 1, 1});
  CudaMachine checked(cudaRegressionPlan(), {.threads = 1, .checkMemory = true});
  recording = record(checked, 1);
  ASSERT_TRUE(recording.isOk()) << recording.status().message();
  EXPECT_TRUE(recording->means.ends_with("as memory was checked")) << recording->means;
  EXPECT_EQ(recording->runs[0].activities.size(), 6u);
}

TEST_F(CudaRecording, KnowsTheRecordsOfTwelveAndThirteen) {
  auto open = [](uint32_t version) {
    fakeCuda().cuptiVersion = version;
    Result<Cupti> cupti = Cupti::resolve(dlopen(nullptr, RTLD_NOW));
    return cupti.isOk() ? cupti->name() : cupti.status().message();
  };
  EXPECT_EQ(open(18), "CUPTI of CUDA 12");
  EXPECT_EQ(open(28), "CUPTI of CUDA 12");
  EXPECT_EQ(open(130401), "CUPTI 13.4");
  for (uint32_t unknown : {17, 29, 120000, 130500})
    EXPECT_NE(open(unknown).find("are not known"), std::string::npos) << unknown;
}

TEST_F(CudaRecording, LostRecordsAreAnError) {
  CudaMachine machine(cudaRegressionPlan());
  fakeCuda().lostKernels = 1;
  Result<Recording> recording = record(machine, 3);
  ASSERT_FALSE(recording.isOk());
  const std::string &message = recording.status().message();
  EXPECT_NE(message.find("3 replays launched 18 kernels, copies and fills, and CUPTI saw 17"), std::string::npos) << message;
}

TEST_F(CudaRecording, KernelsOfOtherNamesAreAnError) {
  CudaMachine machine(cudaRegressionPlan());
  std::vector<DeviceRecord> records;
  for (const char *name : {"fake_product", "mean_square"})
    records.push_back({DeviceRecord::Kind::Kernel, true, records.size() + 1, records.size() + 2, name});
  std::vector<uint32_t> nodes = {1, 1};
  Replay replay{machine.plan.program("step"), nodes};
  Status status = attributeRecords(machine.plan, records, {&replay, 1}).status();
  EXPECT_NE(status.message().find("instruction 1 launches 'difference', but CUPTI saw 'mean_square'"), std::string::npos)
      << status.message();
}

TEST_F(CudaRecording, CopiesToTheHostCountOnlyWithinAGraph) {
  CudaMachine machine(cudaRegressionPlan());
  using Kind = DeviceRecord::Kind;
  std::vector<uint32_t> nodes = {1, 1};
  Replay replay{machine.plan.program("step"), nodes};
  auto readsOf = [&](uint64_t begin, uint64_t end) {
    std::vector<DeviceRecord> records = {{Kind::Kernel, true, 10, 20, "fake_product"},
                                         {Kind::Kernel, true, 30, 40, "difference"}};
    records.insert(begin < 10 ? records.begin() : records.end(), {Kind::CopyToHost, false, begin, end, ""});
    return attributeRecords(machine.plan, records, {&replay, 1})->graphs->hostReads;
  };
  EXPECT_EQ(readsOf(22, 25), 1u) << "while nothing else runs";
  EXPECT_EQ(readsOf(5, 12), 1u);
  EXPECT_EQ(readsOf(38, 45), 1u);
  EXPECT_EQ(readsOf(5, 10), 0u);
  EXPECT_EQ(readsOf(40, 45), 0u) << "the numbers of the step, afterwards";
}

// What CUPTI cannot do at the start falls back to events; afterwards it is a sentence.
TEST_F(CudaRecording, EveryFailureIsASentence) {
  {
    CudaMachine machine(cudaRegressionPlan());
    ASSERT_TRUE(record(machine, 2).isOk());
  }
  const std::map<std::string, int> seen = fakeCuda().calls;
  for (const auto &[call, count] : seen) {
    const bool optional = call == "cuptiActivityEnable" || call == "cuptiActivityRegisterCallbacks" || call == "cuMemAlloc_v2";
    if (givesBack(call))
      continue;
    resetFakeCuda();
    CudaMachine machine(cudaRegressionPlan());
    const int before = fakeCuda().calls[call];
    fakeCuda().failingCall = call;
    Result<Recording> recording = record(machine, 2);
    EXPECT_EQ(recording.isOk(), optional || fakeCuda().calls[call] == before) << call;
    const std::string &message = recording.status().message();
    EXPECT_TRUE(recording.isOk() || message.find("ERROR_") != std::string::npos) << message;
    machine.executor.reset();
    EXPECT_EQ(fakeCuda().liveObjects, 0) << call;
  }
}

TEST_F(CudaRecording, RoofsTakeTheBestCandidate) {
  CudaLibraries libraries = fakeLibraries();
  CublasContext blas;
  blas.library = *libraries.blas;
  CublasHandle handle;
  ASSERT_EQ(blas.library.create(&handle), 0);
  blas.handle = Owned(handle, blas.library.destroy);
  blas.workspaceBytes = 4096;
  const ElementType types[] = {ElementType::F32};
  const RoofSizes sizes{.copyBytes = 16384, .product = 64, .productOfF32 = 32};
  Result<Roofs> roofs = measureRoofs(libraries.driver, blas, types, nullptr, sizes);
  ASSERT_TRUE(roofs.isOk()) << roofs.status().message();
  EXPECT_NEAR(roofs->productsPerSecond[ElementType::F32], 2.0 * 32 * 32 * 32 / 1e-3, 1e3); // its second algorithm takes 1 ms
  EXPECT_GT(roofs->bytesPerSecond, 0);
  fakeCuda().freeBytes = 4096;
  roofs = measureRoofs(libraries.driver, blas, types, nullptr, sizes);
  ASSERT_TRUE(roofs.isOk());
  EXPECT_EQ(roofs->bytesPerSecond, 0);
}

} // namespace
} // namespace tapeout::rt
