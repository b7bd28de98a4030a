// Generation: prompts, sampling and the window of the context.
#include "runtime/Generate.h"

#include "runtime/State.h"
#include "runtime/device/cpu/CpuExecutor.h"
#include "tests/runtime/TestPlans.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>

namespace tapeout::rt {
namespace {

using namespace test;

/// A bigram model in which the byte after b is b + 1, or b + 2 with less probability.
struct Machine {
  Machine() : plan(std::move(*Plan::load(serialize(bigramPlan())))) {
    executor = std::move(*CpuExecutor::create(plan, kernelBytes(), {.threads = 1, .isa = {}}));
    table = reinterpret_cast<float *>(executor->address(plan.slotsOfKind(plan::SlotKind::Parameter).front()));
    for (int from = 0; from < 256; ++from)
      for (int to = 0; to < 256; ++to)
        table[from * 256 + to] = to == (from + 1) % 256 ? 2.0f : to == (from + 2) % 256 ? 1.5f : -30.0f;
  }
  Status run(const GenerateOptions &options) {
    text.clear();
    return generate(*executor, options, stop, [&](int64_t token) { text += tokenText(plan.model(), token); });
  }
  StopSignal stop;
  Plan plan;
  std::unique_ptr<CpuExecutor> executor;
  float *table;
  std::string text;
};

TEST(Generate, GreedyFollowsTheLikeliestToken) {
  Machine machine;
  ASSERT_TRUE(machine.run({.prompt = "a", .tokens = 12, .temperature = 0, .topK = 0, .seed = 1}).isOk());
  EXPECT_EQ(machine.text, "bcdefghijklm"); // longer than the context of 8
  ASSERT_TRUE(machine.run({.prompt = "0123456789abcdefA", .tokens = 3, .temperature = 0, .topK = 0, .seed = 1}).isOk());
  EXPECT_EQ(machine.text, "BCD");
}

TEST(Generate, SamplingDependsOnSeedAndPositionOnly) {
  Machine machine;
  GenerateOptions options{.prompt = "a", .tokens = 40, .temperature = 1, .topK = 0, .seed = 1};
  ASSERT_TRUE(machine.run(options).isOk());
  std::string first = machine.text;
  ASSERT_TRUE(machine.run(options).isOk());
  EXPECT_EQ(machine.text, first);
  // Going on from a longer prompt gives the same rest.
  GenerateOptions rest = options;
  rest.prompt = "a" + first.substr(0, 10);
  rest.tokens = 30;
  ASSERT_TRUE(machine.run(rest).isOk());
  EXPECT_EQ(machine.text, first.substr(10));
  options.seed = 2;
  ASSERT_TRUE(machine.run(options).isOk());
  EXPECT_NE(machine.text, first);
}

TEST(Generate, SampleTokenHasTheRightShares) {
  const std::vector<float> logits = {std::log(1.0f), std::log(2.0f), std::log(5.0f), std::log(2.0f)};
  std::map<int64_t, int> counts, top;
  for (int i = 0; i < 1000; ++i) {
    ++counts[sampleToken(logits, 1, 0, (i + 0.5) / 1000)];
    ++top[sampleToken(logits, 1, 2, (i + 0.5) / 1000)];
  }
  EXPECT_NEAR(counts[0], 100, 1);
  EXPECT_NEAR(counts[2], 500, 1);
  EXPECT_NEAR(top[1], 286, 1); // equal logits: the lower id stays
  EXPECT_EQ(top.size(), 2u);
  EXPECT_EQ(sampleToken(logits, 0, 0, 0.99), 2);
  EXPECT_EQ(sampleToken(logits, 1e-9, 0, 0.99), 2);
}

TEST(Generate, PromptsOfIds) {
  plan::PlanT source = bigramPlan();
  source.model->vocabulary = 300;
  Plan plan = std::move(*Plan::load(serialize(source)));
  EXPECT_EQ(*parsePrompt(plan.model(), "12,5,299"), (std::vector<int64_t>{12, 5, 299}));
  for (const char *prompt : {"", "a", "1,", ",1", "1,,2", "300", "-1", "1 2", "99999999999999999999"})
    EXPECT_EQ(parsePrompt(plan.model(), prompt).status().code(), ExitCode::BadConfig) << prompt;
}

TEST(Generate, RefusesModelsThatCannot) {
  Plan plan = std::move(*Plan::load(serialize(regressionPlan())));
  std::unique_ptr<CpuExecutor> executor = std::move(*CpuExecutor::create(plan, kernelBytes(), {}));
  StopSignal stop;
  EXPECT_EQ(generate(*executor, {.prompt = "a"}, stop, [](int64_t) {}).code(), ExitCode::BadConfig);
  plan::PlanT source = bigramPlan();
  source.model->context = 9;
  Plan other = std::move(*Plan::load(serialize(source)));
  executor = std::move(*CpuExecutor::create(other, kernelBytes(), {}));
  EXPECT_EQ(generate(*executor, {.prompt = "a"}, stop, [](int64_t) {}).code(), ExitCode::BadData);
}

TEST(Generate, NonFiniteLogitsAreAnError) {
  Machine machine;
  machine.table['c' * 256] = NAN;
  Status status = machine.run({.prompt = "a", .tokens = 12, .temperature = 0, .topK = 0, .seed = 1});
  EXPECT_EQ(status.code(), ExitCode::NonFiniteLoss);
  EXPECT_EQ(machine.text, "bc");
}

} // namespace
} // namespace tapeout::rt
