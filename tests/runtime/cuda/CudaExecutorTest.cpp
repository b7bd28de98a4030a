// The executor for cuda on a fake GPU: the right numbers, and what it asks of the driver when.
#include "runtime/device/cpu/CpuExecutor.h"
#include "tests/runtime/PlanBuilder.h"
#include "tests/runtime/cuda/FakeDevice.h"

#include <dlfcn.h>

#include <cmath>
#include <cstring>

namespace tapeout::rt {

using namespace test;

namespace test {

CudaLibraries fakeLibraries() {
  void *self = dlopen(nullptr, RTLD_NOW); // the fake is linked to the test
  return {.driver = *CudaDriver::resolve(self),
          .blas = *CublasLt::resolve(self),
          .openCupti = [] { return Cupti::resolve(dlopen(nullptr, RTLD_NOW)); }};
}

Status fillRegressionInputs(Executor &executor) {
  const plan::Program &step = *executor.plan().program("step");
  for (const plan::NamedSlot *input : *step.inputs())
    TAPEOUT_RETURN_IF_ERROR(executor.write(input->slot(), [&](std::span<uint8_t> bytes) {
      auto *numbers = reinterpret_cast<float *>(bytes.data());
      for (size_t i = 0; i < bytes.size() / sizeof(float); ++i)
        numbers[i] = bytes.size() == 512 ? std::sin(i * 0.7f) : std::cos(i * 1.3f);
    }));
  return Status::ok();
}

CudaMachine::CudaMachine(const plan::PlanT &source, const ExecutorOptions &options)
    : plan(std::move(*Plan::load(serialize(source)))) {
  Result<std::unique_ptr<CudaExecutor>> created = CudaExecutor::create(plan, fakeLibraries(), options);
  status = created.isOk() ? Status::ok() : created.status();
  if (!created.isOk())
    return;
  executor = std::move(*created);
  status = initializeState(*executor, {}, 7);
  if (status.isOk())
    status = writeConfig(*executor, {{"lr", 0.1}, {"momentum", 0.5}});
}

Status CudaMachine::fillInputs() { return fillRegressionInputs(*executor); }

uint32_t CudaMachine::slot(const char *name) const {
  for (uint32_t i = 0; i < plan.slotCount(); ++i)
    if (plan.slot(i).name()->string_view() == name)
      return i;
  return UINT32_MAX;
}

std::vector<float> CudaMachine::floats(const char *name) {
  Result<SlotBytes> bytes = executor->read(slot(name));
  EXPECT_TRUE(bytes.isOk());
  std::vector<float> values(bytes->get().size() / sizeof(float));
  std::memcpy(values.data(), bytes->get().data(), bytes->get().size());
  return values;
}

} // namespace test

namespace {

class Cuda : public testing::Test {
protected:
  void SetUp() override { resetFakeCuda(); }
  int calls(const char *name) { return fakeCuda().calls[name]; }
};

/// Losses and final weights of some steps on the processor.
std::pair<std::vector<double>, std::vector<float>> trainOnCpu(int steps) {
  Plan plan = std::move(*Plan::load(serialize(regressionPlan())));
  std::unique_ptr<CpuExecutor> executor = std::move(*CpuExecutor::create(plan, kernelBytes(), {.threads = 1}));
  EXPECT_TRUE(initializeState(*executor, {}, 7).isOk());
  EXPECT_TRUE(writeConfig(*executor, {{"lr", 0.1}, {"momentum", 0.5}}).isOk());
  EXPECT_TRUE(fillRegressionInputs(*executor).isOk());
  std::vector<double> losses;
  for (int i = 0; i < steps; ++i) {
    EXPECT_TRUE(executor->run(*plan.program("step")).isOk());
    losses.push_back(*readOutput(*executor, *plan.program("step"), "loss"));
  }
  const auto *w = reinterpret_cast<const float *>(executor->address(plan.slotsOfKind(plan::SlotKind::Parameter).front()));
  return {losses, {w, w + 8}};
}

// Static and dynamic memory count together: any dynamic memory may be what goes over the 48 KiB given without asking.
TEST_F(Cuda, AsksForDynamicSharedMemory) {
  CudaMachine without(cudaRegressionPlan());
  ASSERT_TRUE(without.status.isOk()) << without.status.message();
  EXPECT_EQ(calls("cuFuncSetAttribute"), 0);
  plan::PlanT plan = cudaRegressionPlan();
  plan.kernels[0]->gpu->shared_bytes = 4096;
  CudaMachine with(plan);
  ASSERT_TRUE(with.status.isOk()) << with.status.message();
  EXPECT_EQ(calls("cuFuncSetAttribute"), 1);
}

TEST_F(Cuda, TrainsAsTheProcessorDoes) {
  auto [losses, weights] = trainOnCpu(10);
  CudaMachine machine(cudaRegressionPlan());
  ASSERT_TRUE(machine.status.isOk()) << machine.status.message();
  for (int i = 0; i < 10; ++i) {
    ASSERT_TRUE(machine.fillInputs().isOk()); // every step has inputs of its own
    ASSERT_TRUE(machine.step().isOk());
    if (i > 0) { // the step before, while this one waits
      ASSERT_TRUE(machine.executor->wait(1).isOk());
      EXPECT_NEAR(machine.loss(1), losses[i - 1], 1e-6) << i;
    }
  }
  ASSERT_TRUE(machine.executor->wait().isOk());
  EXPECT_NEAR(machine.loss(), losses[9], 1e-6);
  std::vector<float> w = machine.floats("linear.weight");
  for (int j = 0; j < 8; ++j)
    EXPECT_NEAR(w[j], weights[j], 1e-6);
}

TEST_F(Cuda, QueuedStepsKeepTheirInputs) {
  auto weightsAfter = [](bool waitAfterStep) {
    CudaMachine machine(cudaRegressionPlan());
    for (int i = 0; i < 5; ++i) {
      EXPECT_TRUE(machine.fillInputs().isOk());
      EXPECT_TRUE(machine.executor->write(machine.slot("labels"), [&](std::span<uint8_t> bytes) {
        std::fill_n(reinterpret_cast<float *>(bytes.data()), 16, static_cast<float>(i));
      }).isOk());
      EXPECT_TRUE(machine.step().isOk());
      EXPECT_TRUE(!waitAfterStep || machine.executor->wait().isOk());
    }
    return machine.floats("linear.weight");
  };
  EXPECT_EQ(weightsAfter(false), weightsAfter(true));
}

TEST_F(Cuda, AllocatesThreeTimesAndNeverAgain) {
  plan::PlanT plan = cudaRegressionPlan();
  CudaMachine machine(plan);
  ASSERT_TRUE(machine.status.isOk());
  EXPECT_EQ(fakeCuda().allocations, (std::vector<size_t>{plan.persistent_bytes, plan.arena_bytes + 4096, 4096}));
  int pinned = calls("cuMemAllocHost_v2");
  for (int i = 0; i < 5; ++i)
    ASSERT_TRUE(machine.fillInputs().isOk() && machine.step().isOk());
  ASSERT_TRUE(machine.executor->run(*machine.plan.program("evaluate")).isOk());
  EXPECT_EQ(fakeCuda().allocations.size(), 3u);
  EXPECT_EQ(calls("cuMemAllocHost_v2"), pinned);
  machine.executor.reset();
  EXPECT_EQ(fakeCuda().liveObjects, 0);
}

TEST_F(Cuda, MemoryStartsAsZeros) {
  Plan plan = std::move(*Plan::load(serialize(cudaRegressionPlan())));
  TemporaryFolder folder; // measuring fills the memory with numbers
  auto executor = CudaExecutor::create(plan, fakeLibraries(), {.threads = 1, .tuningPath = folder.file("tuning")});
  ASSERT_TRUE(executor.isOk());
  for (uint32_t i = 0; i < plan.slotCount(); ++i) {
    SlotBytes bytes = std::move(*(*executor)->read(i));
    EXPECT_TRUE(std::ranges::all_of(bytes.get(), [](uint8_t byte) { return byte == 0; })) << i;
  }
}

TEST_F(Cuda, CapturesAProgramAfterItsFirstRun) {
  CudaMachine machine(cudaRegressionPlan());
  ASSERT_TRUE(machine.step().isOk());
  EXPECT_EQ(calls("cuStreamBeginCapture_v2"), 0);
  int launches = calls("cuLaunchKernel");
  EXPECT_EQ(launches, 4);
  for (int i = 0; i < 4; ++i)
    ASSERT_TRUE(machine.step().isOk());
  EXPECT_EQ(calls("cuStreamBeginCapture_v2"), 1);
  EXPECT_EQ(calls("cuGraphLaunch"), 4);
  EXPECT_EQ(calls("cuLaunchKernel"), 2 * launches);
  for (int i = 0; i < 2; ++i)
    ASSERT_TRUE(machine.executor->run(*machine.plan.program("evaluate")).isOk());
  EXPECT_EQ(calls("cuStreamBeginCapture_v2"), 2);
  Result<SlotBytes> counter = machine.executor->read(machine.slot("step"));
  EXPECT_EQ(*reinterpret_cast<const int64_t *>(counter->get().data()), 5);
}

TEST_F(Cuda, TakesTheBestImageOfAModule) {
  const std::tuple<int, int, const char *> cases[] = {{9, 0, "cubin 90"}, {8, 9, "cubin 86"}, {8, 6, "cubin 86"},
                                                      {8, 0, "cubin 80"}, {7, 5, "ptx"},      {10, 0, "ptx"}};
  for (auto [major, minor, image] : cases) {
    resetFakeCuda();
    fakeCuda().major = major;
    fakeCuda().minor = minor;
    CudaMachine machine(cudaRegressionPlan());
    EXPECT_EQ(fakeCuda().images, std::vector<std::string>{image}) << major << minor;
  }
}

void expectUnavailable(const plan::PlanT &plan, std::initializer_list<const char *> parts) {
  CudaMachine machine(plan);
  EXPECT_EQ(machine.status.code(), ExitCode::Unavailable);
  for (const char *part : parts)
    EXPECT_NE(machine.status.message().find(part), std::string::npos) << machine.status.message();
  EXPECT_TRUE(fakeCuda().allocations.empty());
  EXPECT_EQ(fakeCuda().liveObjects, 0);
}

TEST_F(Cuda, RefusesBeforeAnythingIsAllocated) {
  plan::PlanT plan = cudaRegressionPlan();
  plan.modules[0]->ptx.clear();
  fakeCuda().major = 7;
  expectUnavailable(plan, {"kernels for sm_80, sm_86, sm_90", "Fake GPU (sm_70)", "--target cuda on this machine"});
  resetFakeCuda();
  fakeCuda().devices = 0;
  expectUnavailable(plan, {"the driver shows none", "CUDA_VISIBLE_DEVICES"});
  resetFakeCuda();
  fakeCuda().freeBytes = size_t(1) << 29;
  plan.arena_bytes = uint64_t(3) << 29;
  expectUnavailable(plan, {"needs 1.50 GiB of GPU memory", "0.50 GiB of the 2.00 GiB of the Fake GPU are free", "--batch"});
}

TEST_F(Cuda, EveryFailureOfTheDriverIsASentence) {
  {
    CudaMachine machine(cudaRegressionPlan());
    ASSERT_TRUE(machine.step().isOk() && machine.step().isOk() && machine.executor->wait().isOk());
  }
  const std::map<std::string, int> seen = fakeCuda().calls;
  for (const auto &[call, count] : seen) {
    if (givesBack(call))
      continue;
    resetFakeCuda();
    fakeCuda().failingCall = call;
    CudaMachine machine(cudaRegressionPlan());
    Status status = machine.status;
    for (int i = 0; i < 2 && status.isOk(); ++i)
      status = machine.step();
    if (status.isOk())
      status = machine.executor->wait();
    EXPECT_FALSE(status.isOk()) << call;
    EXPECT_NE(status.message().find("out of memory (CUDA_ERROR_OUT_OF_MEMORY)"), std::string::npos)
        << call << ": " << status.message();
    machine.executor.reset();
    EXPECT_EQ(fakeCuda().liveObjects, 0) << call;
  }
}

TEST_F(Cuda, FailuresOfLaunchesNameTheLayer) {
  fakeCuda().failingCall = "cuLaunchKernel";
  CudaMachine machine(cudaRegressionPlan());
  EXPECT_NE(machine.step().message().find("difference of layer 'loss', instruction 1 of program 'step'"), std::string::npos);
}

TEST_F(Cuda, BrokenKernelsShowWhenWaitedFor) {
  fakeCuda().faultyKernel = "sgd";
  CudaMachine machine(cudaRegressionPlan());
  ASSERT_TRUE(machine.step().isOk());
  Status status = machine.executor->wait();
  EXPECT_EQ(status.code(), ExitCode::Failed);
  EXPECT_NE(status.message().find("an illegal memory access"), std::string::npos) << status.message();
}

TEST_F(Cuda, MissingKernelIsNamed) {
  plan::PlanT plan = cudaRegressionPlan();
  plan.kernels[0]->symbol = "no_such_kernel";
  CudaMachine machine(plan);
  EXPECT_EQ(machine.status.code(), ExitCode::BadData);
  EXPECT_NE(machine.status.message().find("'no_such_kernel'"), std::string::npos);
}

TEST_F(Cuda, ArgumentsFromATable) {
  plan::PlanT plan = cudaRegressionPlan();
  for (auto &kernel : plan.kernels)
    if (kernel->symbol == "sgd" || kernel->symbol == "difference") {
      kernel->symbol += "_table";
      kernel->gpu->argument_table = true;
    }
  CudaMachine machine(plan), plain(cudaRegressionPlan());
  ASSERT_TRUE(machine.status.isOk()) << machine.status.message();
  for (CudaMachine *each : {&machine, &plain})
    for (int i = 0; i < 3; ++i)
      ASSERT_TRUE(each->fillInputs().isOk() && each->step().isOk());
  EXPECT_EQ(machine.floats("linear.weight"), plain.floats("linear.weight"));
}

TEST_F(Cuda, MemoryCheckPassesGoodPlansAndFindsOverruns) {
  CudaMachine good(cudaRegressionPlan(), {.threads = 1, .checkMemory = true});
  ASSERT_TRUE(good.fillInputs().isOk());
  EXPECT_TRUE(good.step().isOk());
  EXPECT_NEAR(good.loss(), trainOnCpu(1).first[0], 1e-6);
  EXPECT_EQ(good.executor->arenaHighWater(), good.plan.arenaBytes());

  plan::PlanT plan = cudaRegressionPlan();
  auto kernel = std::make_unique<plan::KernelT>(*plan.kernels[0]);
  kernel->symbol = "overrun";
  kernel->argument_count = kernel->result_count = 1;
  plan.kernels.push_back(std::move(kernel));
  auto slot = std::make_unique<plan::SlotT>(*plan.slots[slotIndex(plan, "x")]);
  slot->name = "last";
  slot->kind = plan::SlotKind::Arena;
  slot->offset = plan.arena_bytes;
  plan.arena_bytes += slot->bytes;
  plan::LaunchT launch;
  launch.kernel = plan.kernels.size() - 1;
  launch.arguments = {static_cast<uint32_t>(plan.slots.size())};
  plan.slots.push_back(std::move(slot));
  plan.programs[0]->instructions[0]->body.Set(std::move(launch));
  plan.programs[0]->instructions.resize(1);
  CudaMachine machine(plan, {.threads = 1, .checkMemory = true});
  ASSERT_TRUE(machine.status.isOk()) << machine.status.message();
  EXPECT_NE(machine.step().message().find("outside its slots, to byte 640"), std::string::npos);
}

TEST_F(Cuda, ProductsTakeTheFastestKernelAndKeepIt) {
  TemporaryFolder folder;
  ExecutorOptions options{.threads = 1, .tuningPath = folder.file("model.tuning.json")};
  auto algorithmsOfAStep = [&] {
    CudaMachine machine(cudaRegressionPlan(), options);
    EXPECT_TRUE(machine.status.isOk()) << machine.status.message();
    fakeCuda().algorithms.clear();
    EXPECT_TRUE(machine.step().isOk() && machine.executor->wait().isOk());
    return fakeCuda().algorithms;
  };
  EXPECT_EQ(algorithmsOfAStep(), (std::vector<int>{1, 1}));
  resetFakeCuda();
  fakeCuda().algorithmMilliseconds = {1, 2, 3}; // another day, other times, the same bits
  EXPECT_EQ(algorithmsOfAStep(), (std::vector<int>{1, 1}));
  fakeCuda().unlistedAlgorithm = 1; // the library does not list it this time, but can run it
  EXPECT_EQ(algorithmsOfAStep(), (std::vector<int>{1, 1}));
  fakeCuda().unlistedAlgorithm = -1;
  fakeCuda().algorithmMilliseconds = {2}; // the library has it no more
  EXPECT_EQ(algorithmsOfAStep(), (std::vector<int>{0, 0}));
  fakeCuda().algorithmMilliseconds = {3, 2, 1};
  EXPECT_EQ(algorithmsOfAStep(), (std::vector<int>{0, 0})) << "the choice was kept";
  writeFile(options.tuningPath, "{\"format\": 1");
  EXPECT_EQ(algorithmsOfAStep(), (std::vector<int>{2, 2})) << "a damaged file is measured anew";
  options.tuningPath = folder.file("missing/tuning.json"); // what cannot be kept is not chosen
  EXPECT_EQ(algorithmsOfAStep(), (std::vector<int>{0, 0}));
}

/// cudaRegressionPlan, whose step first computes biased = x y2 + bias [16, 4].
plan::PlanT biasPlan() {
  PlanBuilder builder;
  builder.plan = cudaRegressionPlan();
  uint32_t weight = builder.slot("w2", plan::SlotKind::Input, plan::ElementType::F32, {8, 4});
  uint32_t bias = builder.slot("bias", plan::SlotKind::Input, plan::ElementType::F32, {4});
  uint32_t biased = builder.slot("biased", plan::SlotKind::Arena, plan::ElementType::F32, {16, 4});
  plan::MatmulT matmul = *builder.plan.programs[0]->instructions[0]->body.AsMatmul(); // x times a column
  matmul.b = weight;
  matmul.c = biased;
  matmul.n = matmul.b_row_stride = matmul.c_row_stride = 4;
  matmul.bias = true;
  matmul.epilogue = std::make_unique<plan::LaunchT>();
  matmul.epilogue->kernel = builder.kernel("add_bias", 16, 3, 1);
  matmul.epilogue->arguments = {biased, bias, biased};
  builder.plan.kernels.back()->gpu = std::make_unique<plan::GpuKernelT>(*builder.plan.kernels[0]->gpu);
  plan::ProgramT &program = *builder.plan.programs[0];
  builder.name(program.inputs, "w2", weight);
  builder.name(program.inputs, "bias", bias);
  builder.add(program, std::move(matmul), 0, 0);
  return std::move(builder.plan);
}

TEST_F(Cuda, BiasIsAddedByTheFasterOfLibraryAndKernel) {
  TemporaryFolder folder;
  ExecutorOptions options{.threads = 1, .tuningPath = folder.file("model.tuning.json")};
  auto kernelsOfAStep = [&] {
    CudaMachine machine(biasPlan(), options);
    EXPECT_TRUE(machine.status.isOk()) << machine.status.message();
    EXPECT_TRUE(machine.fillInputs().isOk());
    int before = calls("cuLaunchKernel");
    EXPECT_TRUE(machine.step().isOk() && machine.executor->wait().isOk());
    std::vector<float> biased = machine.floats("biased");
    for (int i = 0; i < 64; ++i) {
      double expected = std::cos(i % 4 * 1.3f);
      for (int p = 0; p < 8; ++p)
        expected += double(std::sin((i / 4 * 8 + p) * 0.7f)) * std::cos((p * 4 + i % 4) * 1.3f);
      EXPECT_NEAR(biased[i], expected, 1e-5) << i;
    }
    return calls("cuLaunchKernel") - before;
  };
  int fused = kernelsOfAStep();
  fakeCuda().biasMilliseconds = 2;
  EXPECT_EQ(kernelsOfAStep(), fused) << "the choice was kept";
  writeFile(options.tuningPath, "");
  EXPECT_EQ(kernelsOfAStep(), fused + 1) << "a kernel is faster";
  fakeCuda().biasMilliseconds = 0;
  EXPECT_EQ(kernelsOfAStep(), fused + 1) << "the choice was kept";
  writeFile(options.tuningPath, "");
  fakeCuda().biasMilliseconds = -1;
  EXPECT_EQ(kernelsOfAStep(), fused + 1) << "the library cannot";
  options.tuningPath = "";
  EXPECT_EQ(kernelsOfAStep(), fused + 1) << "nothing was measured";
}

TEST_F(Cuda, EpiloguesTakeArgumentsFromATable) {
  plan::PlanT plan = biasPlan();
  plan.kernels.back()->symbol += "_table";
  plan.kernels.back()->gpu->argument_table = true;
  CudaMachine plain(biasPlan()), machine(plan);
  const size_t library = fakeCuda().allocations.back(), withoutTable = plain.plan.root().workspace_bytes();
  EXPECT_GE(library, withoutTable + 3 * sizeof(void *)) << "the table has no place";
  for (CudaMachine *each : {&machine, &plain})
    ASSERT_TRUE(each->fillInputs().isOk() && each->step().isOk());
  EXPECT_EQ(machine.floats("biased"), plain.floats("biased"));
}

TEST_F(Cuda, EpiloguesThatAreNoBiasAreRefused) {
  auto messageWith = [](auto damage) {
    plan::PlanT plan = biasPlan();
    damage(plan, *plan.programs[0]->instructions.back()->body.AsMatmul());
    Result<Plan> loaded = Plan::load(serialize(plan));
    return loaded.isOk() ? "" : loaded.status().message();
  };
  EXPECT_EQ(messageWith([](auto &, auto &) {}), "");
  const std::string refused = "kernel 'add_bias' cannot be the epilogue";
  auto isRefused = [&](auto damage) { return messageWith(damage).find(refused) != std::string::npos; };
  EXPECT_TRUE(isRefused([](auto &plan, auto &) {
    plan.slots[slotIndex(plan, "bias")]->shape = {3};
    plan.slots[slotIndex(plan, "bias")]->bytes = 12;
  }));
  EXPECT_TRUE(isRefused([](auto &plan, auto &) { plan.slots[slotIndex(plan, "bias")]->element_type = plan::ElementType::I32; }));
  EXPECT_TRUE(isRefused([](auto &, auto &matmul) { matmul.epilogue->arguments[1] = matmul.c; }));
  EXPECT_TRUE(isRefused([](auto &plan, auto &matmul) { matmul.epilogue->arguments[0] = slotIndex(plan, "x"); }));
  EXPECT_TRUE(isRefused([](auto &plan, auto &matmul) { matmul.epilogue->arguments[2] = slotIndex(plan, "difference"); }));
  EXPECT_TRUE(isRefused([](auto &, auto &matmul) { matmul.m = 1; }));
  EXPECT_TRUE(isRefused([](auto &plan, auto &) { plan.kernels.back()->result_count = 0; }));
  EXPECT_TRUE(isRefused([](auto &plan, auto &) { // the bias lies in c
    plan::SlotT &bias = *plan.slots[slotIndex(plan, "bias")], &c = *plan.slots[slotIndex(plan, "biased")];
    bias.kind = c.kind;
    bias.offset = c.offset;
    std::erase_if(plan.programs[0]->inputs, [](const auto &input) { return input->name == "bias"; });
  }));
  EXPECT_TRUE(isRefused([](auto &plan, auto &matmul) { // a kernel without arguments
    plan.kernels.push_back(std::make_unique<plan::KernelT>(*plan.kernels[matmul.epilogue->kernel]));
    plan.kernels.back()->argument_count = plan.kernels.back()->result_count = 0;
    matmul.epilogue->kernel = plan.kernels.size() - 1;
    matmul.epilogue->arguments.clear();
  }));
}

TEST_F(Cuda, DescriptionNamesGpuDriverAndLibrary) {
  CudaMachine machine(cudaRegressionPlan());
  EXPECT_EQ(machine.executor->description(), "Fake GPU (sm_90), driver 13.0, cuBLASLt 13.1, 3 products, not tuned");
}

} // namespace
} // namespace tapeout::rt
