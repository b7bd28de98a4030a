// Programs give the right numbers, the same bits on every thread count and instruction set, and memory faults are
// found.
#include "runtime/device/cpu/CpuExecutor.h"

#include "runtime/State.h"
#include "tests/runtime/TestPlans.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

namespace tapeout::rt {
namespace {

using namespace test;

/// A plan with its executor and initial state.
struct Machine {
  explicit Machine(const plan::PlanT &source, ExecutorOptions options = {.threads = 1, .isa = {}})
      : plan(std::move(*Plan::load(serialize(source)))) {
    Result<std::unique_ptr<CpuExecutor>> created = CpuExecutor::create(plan, kernelBytes(), options);
    status = created.isOk() ? Status::ok() : created.status();
    if (!created.isOk())
      return;
    executor = std::move(*created);
    EXPECT_TRUE(initializeState(*executor, {}, 7).isOk());
    EXPECT_TRUE(writeConfig(*executor, {{"lr", 0.1}, {"momentum", 0.5}}).isOk());
  }
  template <typename T> T *at(const char *name) {
    for (uint32_t i = 0; i < plan.slotCount(); ++i)
      if (plan.slot(i).name()->string_view() == name)
        return reinterpret_cast<T *>(executor->address(i));
    return nullptr;
  }
  void fillInputs() {
    for (int i = 0; i < 128; ++i)
      at<float>("x")[i] = std::sin(i * 0.7f);
    for (int i = 0; i < 16; ++i)
      at<float>("labels")[i] = std::cos(i * 1.3f);
  }
  Status step() { return executor->run(*plan.program("step")); }

  Plan plan;
  Status status;
  std::unique_ptr<CpuExecutor> executor;
};

std::vector<float> weightsAfter(int steps, const ExecutorOptions &options) {
  Machine machine(regressionPlan(), options);
  EXPECT_TRUE(machine.status.isOk()) << machine.status.message();
  machine.fillInputs();
  for (int i = 0; i < steps; ++i) {
    Status status = machine.step();
    EXPECT_TRUE(status.isOk()) << status.message();
  }
  EXPECT_EQ(*machine.at<int64_t>("step"), steps);
  const float *w = machine.at<float>("linear.weight");
  return {w, w + 8};
}

TEST(Executor, StepMatchesTheFormula) {
  Machine machine(regressionPlan());
  machine.fillInputs();
  double w[8], gradient[8] = {}, loss = 0;
  std::copy_n(machine.at<float>("linear.weight"), 8, w);
  for (int i = 0; i < 16; ++i) {
    double difference = -machine.at<float>("labels")[i];
    for (int j = 0; j < 8; ++j)
      difference += machine.at<float>("x")[i * 8 + j] * w[j];
    loss += difference * difference / 16;
    for (int j = 0; j < 8; ++j)
      gradient[j] += machine.at<float>("x")[i * 8 + j] * difference * 2 / 16;
  }
  ASSERT_TRUE(machine.step().isOk());
  EXPECT_NEAR(*readOutput(*machine.executor, *machine.plan.program("step"), "loss"), loss, 1e-5);
  for (int j = 0; j < 8; ++j)
    EXPECT_NEAR(machine.at<float>("linear.weight")[j], w[j] - 0.1 * gradient[j], 1e-6);
  EXPECT_FALSE(readOutput(*machine.executor, *machine.plan.program("step"), "grad_norm").has_value());
}

TEST(Executor, SameBitsOnEveryThreadCountAndIsa) {
  std::vector<float> expected = weightsAfter(20, {.threads = 1, .isa = CpuIsa::Avx2});
  for (int threads : {1, 2, 4})
    for (bool forceAvx2 : {false, true}) {
      std::optional<CpuIsa> isa = forceAvx2 ? std::optional(CpuIsa::Avx2) : std::nullopt;
      EXPECT_EQ(weightsAfter(20, {.threads = threads, .isa = isa}), expected) << threads;
    }
}

TEST(Executor, TimesEveryInstruction) {
  Machine machine(regressionPlan());
  const plan::Program &step = *machine.plan.program("step");
  ASSERT_TRUE(machine.executor->startRecording().isOk());
  for (int i = 0; i < 2; ++i)
    ASSERT_TRUE(machine.executor->run(step).isOk());
  Recording recording = std::move(*machine.executor->finishRecording());
  ASSERT_TRUE(machine.executor->run(step).isOk()); // not recorded
  EXPECT_EQ(recording.means, "the processor's clock");
  EXPECT_FALSE(recording.graphs);
  ASSERT_EQ(recording.runs.size(), 2u);
  for (const RecordedRun &run : recording.runs) {
    EXPECT_EQ(run.program, &step);
    ASSERT_EQ(run.activities.size(), 6u);
    for (size_t i = 0; i < run.activities.size(); ++i) {
      EXPECT_LE(run.activities[i].begin, run.activities[i].end);
      EXPECT_EQ(run.activities[i].instruction, step.instructions()->Get(i));
    }
  }
}

TEST(Executor, CopiesSlots) {
  plan::PlanT plan = regressionPlan();
  plan::CopyT copy;
  copy.source = slotIndex(plan, "labels");
  copy.destination = slotIndex(plan, "difference");
  copy.bytes = 60;
  plan.programs[0]->instructions.resize(1);
  plan.programs[0]->instructions[0]->body.Set(std::move(copy));
  Machine machine(plan);
  machine.fillInputs();
  ASSERT_TRUE(machine.step().isOk());
  EXPECT_EQ(std::memcmp(machine.at<float>("difference"), machine.at<float>("labels"), 60), 0);
  EXPECT_EQ(machine.at<float>("difference")[15], 0);
}

TEST(Executor, MissingKernelIsNamed) {
  plan::PlanT plan = regressionPlan();
  plan.kernels[0]->symbol = "no_such_kernel";
  Machine machine(plan);
  EXPECT_EQ(machine.status.code(), ExitCode::BadData);
  EXPECT_NE(machine.status.message().find("no_such_kernel_avx"), std::string::npos);
}

TEST(Executor, KernelsThatAreNoSharedObject) {
  Plan plan = std::move(*Plan::load(serialize(regressionPlan())));
  std::vector<uint8_t> junk(4096, 'x'), truncated = kernelBytes();
  truncated.resize(100);
  EXPECT_EQ(CpuExecutor::create(plan, junk, {}).status().code(), ExitCode::BadData);
  EXPECT_EQ(CpuExecutor::create(plan, {}, {}).status().code(), ExitCode::BadData);
  EXPECT_EQ(CpuExecutor::create(plan, truncated, {}).status().code(), ExitCode::Unavailable);
}

TEST(Arena, RefusesWhatTheMachineCannotHold) {
  plan::PlanT source = regressionPlan();
  source.arena_bytes = uint64_t(1) << 45;
  Plan plan = std::move(*Plan::load(serialize(source)));
  Status status = CpuExecutor::create(plan, kernelBytes(), {}).status();
  EXPECT_EQ(status.code(), ExitCode::Unavailable);
  EXPECT_NE(status.message().find("32768.00 GiB"), std::string::npos) << status.message();
  EXPECT_EQ(MemoryRegion::create(uint64_t(1) << 60, "test").status().code(), ExitCode::Unavailable);
}

TEST(Arena, RegionsAreAlignedAndZero) {
  MemoryRegion region = std::move(*MemoryRegion::create(5'000'000, "test"));
  EXPECT_EQ(reinterpret_cast<uintptr_t>(region.data()) % MemoryRegion::kAlignment, 0u);
  EXPECT_GE(region.capacity(), region.size() + MemoryRegion::kMinSlack);
  EXPECT_EQ(region.data()[4'999'999], 0);
}

constexpr ExecutorOptions kChecked = {.threads = 2, .isa = {}, .checkMemory = true};

TEST(MemoryCheck, GoodPlanPassesWithTheSameBits) {
  EXPECT_EQ(weightsAfter(5, kChecked), weightsAfter(5, {.threads = 1, .isa = {}}));
  Machine machine(regressionPlan(), kChecked);
  EXPECT_LE(machine.executor->arenaHighWater(), machine.plan.arenaBytes());
  EXPECT_GT(machine.executor->arenaHighWater(), machine.plan.arenaBytes() - 64);
}

TEST(MemoryCheck, FindsOverlappingLiveSlots) {
  plan::PlanT plan = regressionPlan();
  plan.slots[slotIndex(plan, "gradient")]->offset = plan.slots[slotIndex(plan, "difference")]->offset;
  // The gradient's product reads the difference: Plan::load sees that. Reading it later is for the memory check.
  EXPECT_FALSE(Plan::load(serialize(plan)).isOk());
  std::swap(plan.programs[0]->instructions[2], plan.programs[0]->instructions[3]);
  plan.programs[0]->instructions[2]->body.AsMatmul()->b = slotIndex(plan, "labels");
  Machine machine(plan, kChecked);
  EXPECT_EQ(machine.status.code(), ExitCode::BadData);
  EXPECT_NE(machine.status.message().find(
                "instruction 3 (layer 'loss') reads 'difference' after 'gradient' was written over"),
            std::string::npos)
      << machine.status.message();
}

TEST(MemoryCheck, FindsReadsBeforeWrites) {
  plan::PlanT plan = regressionPlan();
  plan.programs[0]->instructions.erase(plan.programs[0]->instructions.begin());
  Machine machine(plan, kChecked);
  EXPECT_NE(machine.status.message().find("reads 'linear' before it is written"), std::string::npos);
}

TEST(MemoryCheck, FindsKernelsThatLeaveTheirSlots) {
  plan::PlanT plan = regressionPlan();
  auto kernel = std::make_unique<plan::KernelT>();
  kernel->symbol = "overrun";
  kernel->units = kernel->grain = 1;
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

  Machine unchecked(plan);
  EXPECT_TRUE(unchecked.step().isOk());
  Machine machine(plan, kChecked);
  ASSERT_TRUE(machine.status.isOk()) << machine.status.message();
  Status status = machine.step();
  EXPECT_EQ(status.code(), ExitCode::BadData);
  EXPECT_NE(status.message().find("outside its slots, to byte 640"), std::string::npos) << status.message();
}

} // namespace
} // namespace tapeout::rt
