#include "runtime/base/Hyperparameters.h"
#include "runtime/base/Philox.h"
#include "tests/gpu/GpuTest.h"
#include "tests/gpu/Kernels.h"
#include "tests/runtime/PlanBuilder.h"

#include <chrono>
#include <cmath>
#include <cstring>
#include <set>

namespace tapeout::rt::test {
namespace {

using plan::ElementType;
using plan::SlotKind;

constexpr int64_t kSize = 128, kElements = kSize * kSize;
constexpr uint32_t kThreads = 256, kReverseBytes = kThreads * 384;

/// step: h = x w; y = 0.5 (0.5 y + h) + h; loss = x[0] + counter; the counter counts.
plan::PlanT stepPlan(const std::vector<uint8_t> &cubin, uint32_t architecture) {
  PlanBuilder b;
  b.plan.target = "cuda";
  b.plan.layers = {"layer"};
  b.plan.model->name = "steps";
  b.plan.model->task = plan::Task::Regression;
  b.plan.model->batch = kSize;
  b.plan.workspace_bytes = 32 << 20;
  b.plan.modules.push_back(std::make_unique<plan::KernelModuleT>());
  b.plan.modules[0]->ptx = kKernelsPtx;
  if (!cubin.empty()) {
    b.plan.modules[0]->cubins.push_back(std::make_unique<plan::CubinT>());
    b.plan.modules[0]->cubins[0]->architecture = architecture;
    b.plan.modules[0]->cubins[0]->bytes = cubin;
  }
  b.slot("config", SlotKind::Config, ElementType::F64, {kConfigSlotLength});
  uint32_t counter = b.slot("counter", SlotKind::Counter, ElementType::I64, {});
  uint32_t w = b.slot("w", SlotKind::Parameter, ElementType::F32, {kSize, kSize});
  uint32_t y = b.slot("y", SlotKind::OptimizerState, ElementType::F32, {kSize, kSize});
  uint32_t reversed = b.slot("reversed", SlotKind::OptimizerState, ElementType::F32, {kThreads});
  uint32_t x = b.slot("x", SlotKind::Input, ElementType::F32, {kSize, kSize});
  uint32_t loss = b.slot("loss", SlotKind::Output, ElementType::F32, {});
  uint32_t h = b.slot("h", SlotKind::Arena, ElementType::F32, {kSize, kSize});
  uint32_t copied = b.slot("copied", SlotKind::Arena, ElementType::F32, {kSize, kSize});

  auto kernel = [&](const char *symbol, uint32_t arguments, uint32_t blocks, uint32_t threads, uint32_t shared) {
    uint32_t index = b.kernel(symbol, uint64_t(blocks) * threads, arguments, 1);
    auto gpu = std::make_unique<plan::GpuKernelT>();
    gpu->blocks = blocks;
    gpu->threads = threads;
    gpu->shared_bytes = shared;
    gpu->argument_table = std::string(symbol).ends_with("_table");
    b.plan.kernels[index]->gpu = std::move(gpu);
    return index;
  };
  uint32_t scaleAdd = kernel("scale_add", 3, kElements / kThreads, kThreads, 0);
  uint32_t scaleAddTable = kernel("scale_add_table", 3, kElements / kThreads, kThreads, 0);
  uint32_t reverse = kernel("reverse", 2, 1, kThreads, kReverseBytes);
  uint32_t lossKernel = kernel("loss", 3, 1, 1, 0), count = kernel("count", 2, 1, 1, 0);

  plan::ProgramT &step = b.program("step");
  b.name(step.inputs, "x", x);
  b.name(step.outputs, "loss", loss);
  plan::MatmulT product;
  product.a = x, product.b = w, product.c = h;
  product.m = product.n = product.k = kSize;
  product.a_row_stride = product.b_row_stride = product.c_row_stride = kSize;
  product.a_column_stride = product.b_column_stride = product.c_column_stride = 1;
  b.add(step, std::move(product), 0, 0);
  b.launch(step, scaleAdd, {h, y, y}, 0, 0);
  plan::CopyT copy;
  copy.source = h, copy.destination = copied, copy.bytes = kElements * sizeof(float);
  b.add(step, std::move(copy), 0, 0);
  b.launch(step, scaleAddTable, {copied, y, y}, 0, 2);
  b.launch(step, reverse, {copied, reversed}, 0, 2);
  b.launch(step, lossKernel, {x, counter, loss}, 0, 1);
  b.launch(step, count, {counter, counter}, 0, 3);
  return std::move(b.plan);
}

void fillInput(std::span<uint8_t> bytes, uint64_t step) {
  (void)RandomStream{.seed = 5, .stream = step}.fillUniform(tapeout::ElementType::F32, bytes.data(), 0, kElements, -1, 1);
}

enum class Mode { Queued, Traced, Checked };

/// Trains `steps` steps; the losses are read one step late where steps are queued. Returns whether all were right.
Result<bool> train(GpuMachine &machine, uint64_t steps) {
  const plan::Program &step = *machine.plan.program("step");
  TAPEOUT_RETURN_IF_ERROR(initializeState(*machine.executor, {}, 1));
  bool right = true;
  auto check = [&](uint64_t number, unsigned ago) {
    float first;
    RandomStream random{.seed = 5, .stream = number};
    (void)random.fillUniform(tapeout::ElementType::F32, &first, 0, 1, -1, 1);
    right &= *readOutput(*machine.executor, step, "loss", ago) == first + static_cast<float>(number);
  };
  for (uint64_t i = 0; i < steps; ++i) {
    TAPEOUT_RETURN_IF_ERROR(machine.executor->write(machine.slot("x"), [&](std::span<uint8_t> bytes) { fillInput(bytes, i); }));
    TAPEOUT_RETURN_IF_ERROR(machine.executor->run(step));
    if (i > 0) {
      TAPEOUT_RETURN_IF_ERROR(machine.executor->wait(1));
      check(i - 1, 1);
    }
  }
  TAPEOUT_RETURN_IF_ERROR(machine.executor->wait());
  check(steps - 1, 0);
  return right;
}

/// Largest difference of y from the recurrence in double.
double errorOfY(GpuMachine &machine, uint64_t steps) {
  std::vector<float> w = machine.floats("w"), y = machine.floats("y");
  std::vector<double> expected(kElements);
  std::vector<float> x(kElements);
  for (uint64_t step = 0; step < steps; ++step) {
    fillInput({reinterpret_cast<uint8_t *>(x.data()), x.size() * sizeof(float)}, step);
    for (int64_t i = 0; i < kSize; ++i)
      for (int64_t j = 0; j < kSize; ++j) {
        double h = 0;
        for (int64_t p = 0; p < kSize; ++p)
          h += static_cast<double>(x[i * kSize + p]) * w[p * kSize + j];
        double &value = expected[i * kSize + j];
        value = 0.5 * (0.5 * value + h) + h;
      }
  }
  double error = 0;
  for (int64_t i = 0; i < kElements; ++i)
    error = std::max(error, std::abs(y[i] - expected[i]));
  return error;
}

/// Every run has all its instructions; with CUPTI, the graphs of all but the first hold everything.
void checkRecording(Report &report, const Result<Recording> &recording, uint64_t steps) {
  if (!recording.isOk())
    return report.check(recording.status(), "  recorded");
  bool complete = recording->runs.size() == steps;
  for (const RecordedRun &run : recording->runs) {
    std::set<const plan::Instruction *> seen;
    for (const Activity &activity : run.activities)
      seen.insert(activity.instruction);
    complete &= seen.size() == run.program->instructions()->size();
  }
  report.check(complete, "  recorded", "every instruction of {} runs, by {}", recording->runs.size(), recording->means);
  if (recording->graphs)
    report.check(recording->graphs->outside == 0 && recording->graphs->hostReads == 0, "  graphs hold everything",
                 "{} kernels and copies inside, {} kernels outside, {} host reads", recording->graphs->inside,
                 recording->graphs->outside, recording->graphs->hostReads);
}

void timeReplay(Report &report, GpuMachine &machine) {
  constexpr int kSteps = 2000;
  const plan::Program &step = *machine.plan.program("step");
  Status status;
  auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < kSteps && status.isOk(); ++i)
    status = machine.executor->run(step);
  if (status.isOk())
    status = machine.executor->wait();
  double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  report.check(status.isOk(), "replayed steps", "{:.1f} us each, 7 instructions {}", seconds / kSteps * 1e6, status.message());
}

} // namespace

void testSteps(Report &report, const std::vector<uint8_t> &cubin, uint32_t architecture) {
  constexpr uint64_t kSteps = 40;
  struct Variant {
    const char *name;
    Mode mode;
    bool useCubin;
  };
  std::vector<Variant> variants = {{"queued and replayed, PTX", Mode::Queued, false},
                                   {"traced, PTX", Mode::Traced, false},
                                   {"memory checked, PTX", Mode::Checked, false}};
  if (!cubin.empty())
    variants.push_back({"queued and replayed, cubin", Mode::Queued, true});
  std::vector<float> first;
  for (const Variant &variant : variants) {
    GpuMachine machine(report, stepPlan(variant.useCubin ? cubin : std::vector<uint8_t>(), architecture),
                       {.checkMemory = variant.mode == Mode::Checked});
    if (!machine.executor)
      return;
    if (first.empty())
      report.check(true, "device", "{}", machine.executor->description());
    if (variant.mode == Mode::Traced)
      report.check(machine.executor->startRecording(), variant.name);
    Result<bool> right = train(machine, kSteps);
    if (!right.isOk()) {
      report.check(right.status(), variant.name);
      continue;
    }
    report.check(*right, variant.name, "every loss belongs to its step");
    if (variant.mode == Mode::Traced)
      checkRecording(report, machine.executor->finishRecording(), kSteps);
    double error = errorOfY(machine, kSteps);
    report.check(error < 1e-5, "  against double", "largest difference {:.1e}", error);
    std::vector<float> y = machine.floats("y"), reversed = machine.floats("reversed");
    if (first.empty())
      first = y;
    report.check(y == first, "  bits", "as the first variant");
    if (variant.mode != Mode::Checked) { // it fills what is dead
      std::vector<float> copied = machine.floats("copied");
      bool same = true;
      for (uint32_t i = 0; i < kThreads; ++i)
        same &= reversed[i] == copied[kThreads - 1 - i];
      report.check(same, "  96 KiB of shared memory", "reversed");
    }
    if (variant.mode == Mode::Queued)
      timeReplay(report, machine);
  }
  plan::PlanT tooLarge = stepPlan({}, 0);
  tooLarge.arena_bytes = uint64_t(1) << 40;
  flatbuffers::FlatBufferBuilder builder;
  plan::FinishPlanBuffer(builder, plan::Plan::Pack(builder, &tooLarge));
  Plan plan = std::move(*Plan::load({builder.GetBufferPointer(), builder.GetSize()}));
  Status status = createExecutor(plan, {}, {}).status();
  report.check(status.code() == ExitCode::Unavailable, "a plan of 1 TiB", "{}", status.message());
}

} // namespace tapeout::rt::test
