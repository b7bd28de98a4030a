// Plan::load accepts a good plan and refuses every broken one with one sentence.
#include "runtime/Plan.h"

#include "runtime/Describe.h"
#include "runtime/MemoryCheck.h"
#include "tests/runtime/TestPlans.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <random>

namespace tapeout::rt {
namespace {

using namespace test;

Status loadStatus(const std::vector<uint8_t> &bytes) {
  Result<Plan> plan = Plan::load(bytes);
  return plan.isOk() ? Status::ok() : plan.status();
}

TEST(Plan, LoadsAGoodPlan) {
  Result<Plan> plan = Plan::load(serialize(regressionPlan()));
  ASSERT_TRUE(plan.isOk()) << plan.status().message();
  EXPECT_NE(plan->program("step"), nullptr);
  EXPECT_EQ(plan->program("predict"), nullptr);
  EXPECT_EQ(plan->defaultOf("lr")->value(), 0.1);
  EXPECT_EQ(plan->defaultOf("beta1"), nullptr);
  EXPECT_EQ(plan->hash().size(), 64u);
  EXPECT_EQ(printable(plan->slot(plan->configSlot()).name()), "config");
  EXPECT_TRUE(loadStatus(serialize(bigramPlan())).isOk());
}

TEST(Plan, DescriptionNamesWhatItHolds) {
  Result<Plan> plan = Plan::load(serialize(regressionPlan()));
  std::string text = describePlan(*plan);
  for (const char *part : {"regression", "16 samples", "8 trained, 0 frozen", "program step", "2 matrix products",
                           "linear.weight", "f32 [8, 1]", "optimizer sgd", "momentum"})
    EXPECT_NE(text.find(part), std::string::npos) << part << " in\n" << text;
}

struct HostileCase {
  const char *name;
  std::function<void(plan::PlanT &)> damage;
  const char *message; // part of the expected sentence
};

plan::SlotT &slotOf(plan::PlanT &plan, const char *name) { return *plan.slots[slotIndex(plan, name)]; }
plan::LaunchT &launchOf(plan::PlanT &plan, size_t instruction) {
  return *plan.programs[0]->instructions[instruction]->body.AsLaunch();
}
plan::MatmulT &matmulOf(plan::PlanT &plan) { return *plan.programs[0]->instructions[0]->body.AsMatmul(); }

// The kernel `difference` as the epilogue of the first product, which has one column only.
plan::LaunchT &addEpilogue(plan::PlanT &plan) {
  plan::MatmulT &matmul = matmulOf(plan);
  matmul.epilogue = std::make_unique<plan::LaunchT>();
  matmul.epilogue->kernel = 0;
  matmul.epilogue->arguments = {matmul.c, slotIndex(plan, "labels"), slotIndex(plan, "difference")};
  return *matmul.epilogue;
}

const std::vector<HostileCase> kHostileCases = {
    {"OldFormat", [](auto &p) { p.format_version = 1; }, "format version is 1"},
    {"FormatVersion", [](auto &p) { p.format_version = 7; }, "format version is 7"},
    {"Target", [](auto &p) { p.target = "tpu"; }, "only 'cpu' and 'cuda'"},
    {"NoModel", [](auto &p) { p.model.reset(); }, "missing"},
    {"HugeArena", [](auto &p) { p.arena_bytes = UINT64_MAX; }, "more than any machine"},
    {"BatchZero", [](auto &p) { p.model->batch = 0; }, "batch of 0"},
    {"TaskUnknown", [](auto &p) { p.model->task = plan::Task(9); }, "task 9"},
    {"DefaultUnknown", [](auto &p) { p.defaults[0]->name = "speed"; }, "'speed' is not a hyperparameter"},
    {"DefaultNan", [](auto &p) { p.defaults[0]->value = NAN; }, "not a finite number"},
    {"DefaultTwice", [](auto &p) { p.defaults[1]->name = "lr"; }, "given twice"},
    {"SlotKind", [](auto &p) { p.slots[0]->kind = plan::SlotKind(99); }, "unknown kind"},
    {"SlotType", [](auto &p) { p.slots[0]->element_type = plan::ElementType(99); }, "unknown kind"},
    {"SlotOffset", [](auto &p) { slotOf(p, "x").offset += 4; }, "not a multiple of 64"},
    {"SlotOutside", [](auto &p) { slotOf(p, "x").offset = uint64_t(1) << 40; }, "leaves its region"},
    {"SlotWraps", [](auto &p) { slotOf(p, "x").offset = ~uint64_t(63); }, "leaves its region"},
    {"SlotBytesWrap", [](auto &p) { slotOf(p, "x").bytes = ~uint64_t(0); }, "leaves its region"},
    {"SlotTooSmall", [](auto &p) { slotOf(p, "x").bytes = 511; }, "too few for its shape"},
    {"ShapeOverflow",
     [](auto &p) {
       slotOf(p, "x").shape = {int64_t(1) << 40, int64_t(1) << 40};
     },
     "too few"},
    {"ShapeNegative",
     [](auto &p) {
       slotOf(p, "x").shape = {-16, -8};
     },
     "extent -16"},
    {"ShapeZero",
     [](auto &p) {
       slotOf(p, "x").shape = {0, 8};
     },
     "extent 0"},
    {"ShapeRank", [](auto &p) { slotOf(p, "x").shape.assign(17, 1); }, "17 dimensions"},
    {"PersistentOverlap", [](auto &p) { slotOf(p, "labels").offset = slotOf(p, "x").offset; }, "overlap"},
    {"SavedNameTwice", [](auto &p) { slotOf(p, "sgd.momentum/linear.weight").name = "linear.weight"; },
     "two parameters"},
    {"NoInitializer", [](auto &p) { slotOf(p, "linear.weight").initializer.reset(); }, "no known initialiser"},
    {"InitializerNan", [](auto &p) { slotOf(p, "linear.weight").initializer->b = NAN; }, "not finite"},
    {"IntegerParameter", [](auto &p) { slotOf(p, "linear.weight").element_type = plan::ElementType::I32; },
     "floating-point"},
    {"ConstantShort", [](auto &p) { slotOf(p, "x").kind = plan::SlotKind::Constant; }, "does not hold"},
    {"NoConfig", [](auto &p) { slotOf(p, "config").kind = plan::SlotKind::Input; }, "0 config slots"},
    {"TwoConfigs", [](auto &p) { slotOf(p, "x").kind = plan::SlotKind::Config; }, "config slot 'x'"},
    {"ShortConfig", [](auto &p) { slotOf(p, "config").shape = {11}; }, "32 float64"},
    {"KernelName", [](auto &p) { p.kernels[0]->symbol = "a b"; }, "not a symbol name"},
    {"KernelUnits", [](auto &p) { p.kernels[0]->units = 0; }, "0 units"},
    {"KernelGrain", [](auto &p) { p.kernels[0]->grain = ~uint64_t(0); }, "out of range"},
    {"KernelResults", [](auto &p) { p.kernels[0]->result_count = 9; }, "more results than arguments"},
    {"ProgramTwice", [](auto &p) { p.programs[1]->name = "other", p.programs[0]->name = "other"; }, "two programs"},
    {"NoLoss", [](auto &p) { p.programs[0]->outputs.clear(); }, "lacks the output 'loss'"},
    {"LossIsVector",
     [](auto &p) {
       slotOf(p, "x").kind = plan::SlotKind::Output, p.programs[0]->inputs.erase(p.programs[0]->inputs.begin()),
                 p.programs[0]->outputs[0]->slot = slotIndex(p, "x");
     },
     "not one number"},
    {"InputKind", [](auto &p) { p.programs[0]->inputs[0]->slot = slotIndex(p, "loss"); }, "another kind"},
    {"InputSlot", [](auto &p) { p.programs[0]->inputs[0]->slot = 1000; }, "no slot"},
    {"InputTwice", [](auto &p) { p.programs[0]->inputs[0]->name = "labels"; }, "given twice"},
    {"Layer", [](auto &p) { p.programs[0]->instructions[0]->layer = 3; }, "no known layer"},
    {"Phase", [](auto &p) { p.programs[0]->instructions[0]->phase = 5; }, "no known layer or phase"},
    {"NoBody", [](auto &p) { p.programs[0]->instructions[0]->body.Reset(); }, "unknown type"},
    {"LaunchKernel", [](auto &p) { launchOf(p, 1).kernel = 1000; }, "kernel 1000 does not exist"},
    {"LaunchArguments", [](auto &p) { launchOf(p, 1).arguments.pop_back(); }, "takes 3 arguments but gets 2"},
    {"LaunchSlot", [](auto &p) { launchOf(p, 1).arguments[0] = 1000; }, "slot 1000 does not exist"},
    {"LaunchWritesInput", [](auto &p) { launchOf(p, 1).arguments[2] = slotIndex(p, "x"); }, "writes to 'x'"},
    {"LaunchWritesConfig", [](auto &p) { launchOf(p, 1).arguments[2] = 0; }, "may only read"},
    {"MatmulSlot", [](auto &p) { matmulOf(p).b = 1000; }, "slot 1000"},
    {"MatmulType", [](auto &p) { matmulOf(p).a = slotIndex(p, "config"); }, "is of f64, f32 and f32"},
    {"MatmulMixedTypes",
     [](auto &p) { p.slots[matmulOf(p).a]->element_type = plan::ElementType::BF16; }, "is of bf16, f32 and f32"},
    {"MatmulNarrowResult",
     [](auto &p) { p.slots[matmulOf(p).c]->element_type = plan::ElementType::F16; }, "is of f32, f32 and f16"},
    {"StateRecipe",
     [](auto &p) {
       auto &slot = *p.slots[slotIndex(p, "config")];
       slot.kind = plan::SlotKind::OptimizerState;
       slot.initializer = std::make_unique<plan::InitializerT>();
       slot.initializer->kind = plan::InitializerKind::Normal;
     },
     "has a recipe that is not a constant"},
    {"MatmulLeavesA", [](auto &p) { matmulOf(p).a_row_stride = 9; }, "leaves its operand 'x'"},
    {"MatmulLeavesC", [](auto &p) { matmulOf(p).c_row_stride = 2; }, "leaves its operand 'linear'"},
    {"MatmulOffset", [](auto &p) { matmulOf(p).a_offset = 1; }, "leaves its operand 'x'"},
    {"MatmulOffsetNegative", [](auto &p) { matmulOf(p).c_offset = -1; }, "leaves its operand 'linear'"},
    {"MatmulOffsetWraps", [](auto &p) { matmulOf(p).b_offset = INT64_MAX; }, "leaves its operand"},
    {"MatmulExtent", [](auto &p) { matmulOf(p).m = 17; }, "leaves its operand"},
    {"MatmulExtentZero", [](auto &p) { matmulOf(p).k = 0; }, "leaves its operand"},
    {"MatmulNegative", [](auto &p) { matmulOf(p).a_row_stride = -1; }, "leaves its operand"},
    {"MatmulWraps", [](auto &p) { matmulOf(p).a_row_stride = INT64_MAX, matmulOf(p).a_column_stride = INT64_MAX; },
     "leaves"},
    {"MatmulWritesTwice", [](auto &p) { matmulOf(p).c_row_stride = 0; }, "matrix product"},
    {"MatmulInPlace", [](auto &p) { matmulOf(p).a = matmulOf(p).c, matmulOf(p).a_row_stride = 1, matmulOf(p).k = 1; },
     "over it"},
    {"EpilogueKernel", [](auto &p) { addEpilogue(p).kernel = 1000; }, "kernel 1000 does not exist"},
    {"EpilogueSlot", [](auto &p) { addEpilogue(p).arguments[1] = 1000; }, "slot 1000 does not exist"},
    {"EpilogueOfVector", [](auto &p) { addEpilogue(p); }, "cannot be the epilogue"},
    {"MatmulBatch", [](auto &p) { matmulOf(p).batch.assign(5, plan::BatchDimension(1, 0, 0, 0)); },
     "5 batch dimensions"},
    {"MatmulBatchLeaves", [](auto &p) { matmulOf(p).batch = {plan::BatchDimension(2, INT64_MAX, 0, 16)}; }, "leaves"},
};

void setCopy(plan::PlanT &plan, const char *from, const char *to, uint64_t bytes) {
  plan::CopyT copy;
  copy.source = slotIndex(plan, from);
  copy.destination = slotIndex(plan, to);
  copy.bytes = bytes;
  plan.programs[0]->instructions[0]->body.Set(std::move(copy));
}

const std::vector<HostileCase> kHostileCopies = {
    {"TooLong", [](auto &p) { setCopy(p, "x", "linear", 65); }, "copies 65 bytes"},
    {"Empty", [](auto &p) { setCopy(p, "x", "linear", 0); }, "copies 0 bytes"},
    {"Wraps", [](auto &p) { setCopy(p, "x", "linear", UINT64_MAX); }, "more than"},
    {"OverItself", [](auto &p) { setCopy(p, "linear", "gradient", 32); }, "over itself"},
    {"IntoInput", [](auto &p) { setCopy(p, "linear", "x", 64); }, "may only read"},
};

/// The first instruction as a convolution of x [16, 8] as planes of 2 x 4, by w (8 floats), into `linear` (16 floats).
void setWindow(plan::PlanT &plan, const std::function<void(plan::WindowT &)> &damage) {
  plan::WindowT window;
  window.function = plan::WindowFunction::Convolution;
  window.arguments = {slotIndex(plan, "x"), slotIndex(plan, "linear.weight"), slotIndex(plan, "linear")};
  window.batch = 16;
  window.channels = window.filters = window.parts = 1;
  window.height = window.kernel_height = 2;
  window.width = window.kernel_width = 4;
  window.out_height = window.out_width = window.stride_y = window.stride_x = 1;
  damage(window);
  plan.programs[0]->instructions[0]->body.Set(std::move(window));
}

const std::vector<HostileCase> kHostileWindows = {
    {"Function", [](auto &p) { setWindow(p, [](auto &w) { w.function = plan::WindowFunction(7); }); }, "function 7 is unknown"},
    {"Arguments", [](auto &p) { setWindow(p, [](auto &w) { w.arguments.pop_back(); }); }, "takes 3 arguments"},
    {"Slot", [](auto &p) { setWindow(p, [](auto &w) { w.arguments[1] = 1000; }); }, "slot 1000"},
    {"WritesInput", [](auto &p) { setWindow(p, [](auto &w) { std::swap(w.arguments[0], w.arguments[2]), w.batch = 1; }); }, "may only read"},
    {"Type", [](auto &p) { setWindow(p, [](auto &w) { w.arguments[1] = 0; }); }, "another type"},
    {"LeavesInput", [](auto &p) { setWindow(p, [](auto &w) { w.batch = 17; }); }, "leaves its operand"},
    {"LeavesWeight", [](auto &p) { setWindow(p, [](auto &w) { w.filters = 2, w.batch = 8; }); }, "leaves its operand 'linear.weight'"},
    {"ExtentZero", [](auto &p) { setWindow(p, [](auto &w) { w.channels = 0; }); }, "is 0"},
    {"Huge", [](auto &p) { setWindow(p, [](auto &w) { w.batch = w.channels = INT32_MAX; }); }, "leaves its operand"},
    {"Stride", [](auto &p) { setWindow(p, [](auto &w) { w.stride_x = 0; }); }, "stride of 0"},
    {"Padding", [](auto &p) { setWindow(p, [](auto &w) { w.pad_left = 4; }); }, "padding"},
    {"Position", [](auto &p) { setWindow(p, [](auto &w) { w.out_height = 3; }); }, "last position"},
    {"OverItself", [](auto &p) {
       setWindow(p, [&](auto &w) {
         w.function = plan::WindowFunction::AvgPool, w.arguments = {slotIndex(p, "linear"), slotIndex(p, "linear")}, w.batch = 1;
       });
     }, "over 'linear'"},
    {"IndexType", [](auto &p) {
       setWindow(p, [&](auto &w) { w.function = plan::WindowFunction::MaxPool, w.arguments = {slotIndex(p, "x"), slotIndex(p, "linear"), slotIndex(p, "difference")}; });
     }, "another type"},
};

TEST(Plan, TakesAConvolution) {
  plan::PlanT plan = regressionPlan();
  setWindow(plan, [](plan::WindowT &) {});
  EXPECT_TRUE(loadStatus(serialize(plan)).isOk()) << loadStatus(serialize(plan)).message();
}

TEST(Plan, RefusesHostilePlans) {
  for (const auto *cases : {&kHostileCases, &kHostileCopies, &kHostileWindows})
    for (const HostileCase &hostile : *cases) {
      SCOPED_TRACE(hostile.name);
      plan::PlanT plan = regressionPlan();
      hostile.damage(plan);
      Status status = loadStatus(serialize(plan));
      EXPECT_EQ(status.code(), ExitCode::BadData);
      EXPECT_NE(status.message().find(hostile.message), std::string::npos) << status.message();
      EXPECT_EQ(status.message().find('\n'), std::string::npos);
    }
}

TEST(Plan, MessagesNameTheLayer) {
  plan::PlanT plan = regressionPlan();
  matmulOf(plan).b = 1000;
  plan.layers[0] = "blocks.0\n.attn";
  EXPECT_NE(loadStatus(serialize(plan)).message().find("instruction 0 of program 'step' (layer 'blocks.0?.attn')"),
            std::string::npos);
}

TEST(Plan, RefusesTruncatedPlans) {
  std::vector<uint8_t> bytes = serialize(regressionPlan());
  for (size_t size = 0; size + 8 < bytes.size(); size += 7) // the last bytes may be padding
    EXPECT_EQ(loadStatus({bytes.begin(), bytes.begin() + size}).code(), ExitCode::BadData) << size;
}

TEST(Plan, SurvivesBitFlips) {
  const std::vector<uint8_t> good = serialize(regressionPlan());
  std::mt19937 random(1);
  int refused = 0;
  for (int i = 0; i < 2000; ++i) {
    std::vector<uint8_t> bytes = good;
    for (int flips = 1 + i % 3; flips > 0; --flips)
      bytes[random() % bytes.size()] ^= 1 << random() % 8;
    Result<Plan> plan = Plan::load(bytes);
    refused += !plan.isOk();
    if (!plan.isOk())
      continue;
    EXPECT_FALSE(describePlan(*plan).empty());
    for (const plan::Program *program : orEmpty(plan->root().programs()))
      (void)MemoryCheck::create(*plan, *program).isOk();
  }
  EXPECT_GT(refused, 1000);
}

} // namespace
} // namespace tapeout::rt
