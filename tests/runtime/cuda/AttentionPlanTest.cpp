// Plan::load refuses attention that would read or write outside of its slots, or over what it reads.
#include "runtime/Plan.h"
#include "tests/runtime/PlanBuilder.h"
#include "tests/runtime/TestPlans.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>

namespace tapeout::rt {
namespace {

using namespace test;

constexpr int64_t kBatch = 2, kHeads = 3, kTokens = 5, kSize = 8, kWidth = kHeads * kSize;

void drop(plan::PlanT &plan, plan::AttentionT &attention, double rate) {
  PlanBuilder builder;
  builder.plan = std::move(plan);
  attention.dropout = std::make_unique<plan::AttentionDropoutT>();
  attention.dropout->rate = rate;
  attention.dropout->seed = builder.slot("seed", plan::SlotKind::Arena, plan::ElementType::I64, {});
  attention.dropout->offset = builder.slot("offset", plan::SlotKind::Arena, plan::ElementType::I64, {});
  plan = std::move(builder.plan);
}

void pad(plan::PlanT &plan, plan::AttentionT &attention, int64_t lengths) {
  PlanBuilder builder;
  builder.plan = std::move(plan);
  attention.lengths = builder.slot("lengths", plan::SlotKind::Arena, plan::ElementType::I32, {lengths});
  plan = std::move(builder.plan);
}

/// Attention on the parts of a packed tensor, and its gradients joined in another.
plan::PlanT attentionPlan() {
  PlanBuilder builder;
  builder.plan = cudaRegressionPlan();
  auto bf16 = [&](const char *name, int64_t width) {
    return builder.slot(name, plan::SlotKind::Arena, plan::ElementType::BF16, {kBatch, kTokens, width});
  };
  uint32_t qkv = bf16("qkv", 3 * kWidth), y = bf16("mixed", kWidth), dy = bf16("dmixed", kWidth), dqkv = bf16("dqkv", 3 * kWidth);
  uint32_t lse = builder.slot("lse", plan::SlotKind::Arena, plan::ElementType::F32, {kBatch, kHeads, kTokens});
  auto whole = [](uint32_t slot) { return plan::AttentionOperand(slot, 0, kTokens * kWidth, kWidth, kSize); };
  auto part = [](uint32_t slot, int64_t i) {
    return plan::AttentionOperand(slot, i * kWidth, kTokens * 3 * kWidth, 3 * kWidth, kSize);
  };
  plan::ProgramT &program = builder.program("other");
  for (bool backward : {false, true}) {
    plan::AttentionT attention;
    attention.backward = backward;
    attention.causal = true;
    attention.scale = 0.5;
    attention.batch = kBatch, attention.heads = attention.key_heads = kHeads, attention.tokens = kTokens, attention.head_size = kSize;
    attention.lse = lse;
    attention.operands = {part(qkv, 0), part(qkv, 1), part(qkv, 2), whole(y)};
    if (backward)
      attention.operands.insert(attention.operands.end(), {whole(dy), part(dqkv, 0), part(dqkv, 1), part(dqkv, 2)});
    builder.add(program, std::move(attention), 0, backward ? 2 : 0);
  }
  program.instructions[1]->scratch = builder.slot("scratch", plan::SlotKind::Arena, plan::ElementType::F32, {1024});
  return std::move(builder.plan);
}

plan::AttentionT &forward(plan::PlanT &plan) { return *plan.programs.back()->instructions[0]->body.AsAttention(); }
plan::AttentionT &backward(plan::PlanT &plan) { return *plan.programs.back()->instructions[1]->body.AsAttention(); }

/// The operand with another slot (or the same), offset and distance of tokens.
plan::AttentionOperand moved(const plan::AttentionOperand &from, int64_t offset, int64_t tokenStride, int64_t slot = -1) {
  return plan::AttentionOperand(slot < 0 ? from.slot() : slot, offset, from.batch_stride(), tokenStride, from.head_stride());
}

struct HostileCase {
  const char *name;
  std::function<void(plan::PlanT &)> damage;
  const char *message;
};

const std::vector<HostileCase> kCases = {
    {"Cpu", [](auto &p) { p.target = "cpu"; }, "no instruction of the target cpu"},
    {"FewOperands", [](auto &p) { forward(p).operands.pop_back(); }, "has 3 operands"},
    {"ForwardAsBackward", [](auto &p) { forward(p).backward = true; }, "has 4 operands"},
    {"Extent", [](auto &p) { forward(p).tokens = 0; }, "an extent of attention is 0"},
    {"LargeExtent", [](auto &p) { forward(p).heads = int64_t(1) << 40; }, "an extent of attention is"},
    {"Scale", [](auto &p) { forward(p).scale = std::numeric_limits<double>::infinity(); }, "not finite"},
    {"SlotIndex", [](auto &p) { forward(p).operands[0] = moved(forward(p).operands[0], 0, 1, 9999); }, "9999"},
    {"Type", [](auto &p) { p.slots[slotIndex(p, "mixed")]->element_type = plan::ElementType::F16; }, "wrong element type"},
    {"Offset", [](auto &p) { forward(p).operands[2] = moved(forward(p).operands[2], 2 * kWidth + 1, 3 * kWidth); }, "leaves its operand 'qkv'"},
    {"NegativeOffset", [](auto &p) { forward(p).operands[0] = moved(forward(p).operands[0], -1, 3 * kWidth); }, "leaves its operand 'qkv'"},
    {"NegativeStride", [](auto &p) { forward(p).operands[0] = moved(forward(p).operands[0], 0, -1); }, "leaves its operand 'qkv'"},
    {"Lse", [](auto &p) { p.slots[slotIndex(p, "lse")]->bytes = 4; p.slots[slotIndex(p, "lse")]->shape = {1}; }, "cannot hold a number for each row"},
    {"LseType", [](auto &p) { p.slots[slotIndex(p, "lse")]->element_type = plan::ElementType::I32; }, "cannot hold a number for each row"},
    {"WritesOverInput", [](auto &p) { forward(p).operands[3] = plan::AttentionOperand(slotIndex(p, "qkv"), 0, kTokens * kWidth, kWidth, kSize); },
     "writes 'qkv' over 'qkv'"},
    {"GradientsOverlap", [](auto &p) { backward(p).operands[7] = moved(backward(p).operands[7], kWidth + kSize, 3 * kWidth); },
     "writes 'dqkv' over 'dqkv'"},
    {"ScratchIndex", [](auto &p) { p.programs.back()->instructions[1]->scratch = 9999; }, "9999"},
    {"ScratchOfTheWholeRun", [](auto &p) { p.programs.back()->instructions[1]->scratch = slotIndex(p, "config"); }, "as scratch memory"},
    {"ScratchOfACopy", [](auto &p) { PlanBuilder builder;
       builder.plan = std::move(p);
       plan::CopyT copy;
       copy.source = slotIndex(builder.plan, "qkv"), copy.destination = slotIndex(builder.plan, "dqkv"), copy.bytes = 16;
       builder.add(*builder.plan.programs.back(), std::move(copy), 0, 0);
       p = std::move(builder.plan);
       p.programs.back()->instructions[2]->scratch = slotIndex(p, "scratch"); }, "as scratch memory"},
    {"ScratchOverInput", [](auto &p) { p.slots[slotIndex(p, "scratch")]->offset = p.slots[slotIndex(p, "lse")]->offset; }, "writes 'scratch' over 'lse'"},
    {"ScratchOverResult", [](auto &p) {
       plan::SlotT &scratch = *p.slots[slotIndex(p, "scratch")];
       scratch.offset = p.slots[slotIndex(p, "dqkv")]->offset, scratch.bytes = 64, scratch.shape = {16}; },
     "writes 'scratch' over 'dqkv'"},
    {"NondeterministicForward", [](auto &p) { forward(p).nondeterministic = true; }, "cannot be nondeterministic"},
    {"NondeterministicWithoutScratch", [](auto &p) { backward(p).nondeterministic = true; p.programs.back()->instructions[1]->scratch = {}; },
     "no scratch memory for the sums"},
    {"NondeterministicInLittleScratch", [](auto &p) { backward(p).nondeterministic = true;
       plan::SlotT &scratch = *p.slots[slotIndex(p, "scratch")];
       scratch.shape = {kBatch * kTokens * kHeads * (kSize + 1) - 1}, scratch.bytes = 4 * scratch.shape[0]; },
     "no scratch memory for the sums"},
    {"KeyHeads", [](auto &p) { forward(p).key_heads = 2; }, "3 heads for 2 heads of keys"},
    {"NoKeyHeads", [](auto &p) { forward(p).key_heads = 0; }, "an extent of attention is 0"},
    {"DropsAll", [](auto &p) { drop(p, forward(p), 1); }, "dropout of attention is 1"},
    {"DropsNone", [](auto &p) { drop(p, forward(p), 0); }, "dropout of attention is 0"},
    {"DropsNan", [](auto &p) { drop(p, forward(p), std::nan("")); }, "dropout of attention is nan"},
    {"SeedIndex", [](auto &p) { drop(p, forward(p), 0.5); forward(p).dropout->seed = 9999; }, "9999"},
    {"SeedType", [](auto &p) { drop(p, forward(p), 0.5); forward(p).dropout->offset = forward(p).lse; }, "no seed or offset"},
    {"WritesOverSeed", [](auto &p) { drop(p, forward(p), 0.5); p.slots[slotIndex(p, "seed")]->offset = p.slots[slotIndex(p, "mixed")]->offset; },
     "writes 'mixed' over 'seed'"},
    {"LengthsIndex", [](auto &p) { forward(p).lengths = 9999; }, "9999"},
    {"LengthsType", [](auto &p) { forward(p).lengths = slotIndex(p, "lse"); }, "a length for each sequence"},
    {"FewLengths", [](auto &p) { pad(p, forward(p), 1); }, "a length for each sequence"},
    {"WritesOverLengths", [](auto &p) { pad(p, forward(p), 2); p.slots[slotIndex(p, "lengths")]->offset = p.slots[slotIndex(p, "mixed")]->offset; },
     "writes 'mixed' over 'lengths'"},
    {"ManyKeyHeads", [](auto &p) { // the gradients of keys and values no longer lie side by side
       for (plan::AttentionT *attention : {&forward(p), &backward(p)})
         attention->heads = 1, attention->key_heads = 1;
       backward(p).operands[6] = moved(backward(p).operands[6], 0, 3 * kWidth); }, "writes 'dqkv' over 'dqkv'"},
    {"GradientsInOtherStrides", [](auto &p) { backward(p).operands[7] = moved(backward(p).operands[7], 0, kWidth); },
     "writes 'dqkv' over 'dqkv'"},
};

TEST(AttentionPlan, TakesPartsOfPackedTensors) {
  Result<Plan> plan = Plan::load(serialize(attentionPlan()));
  EXPECT_TRUE(plan.isOk()) << plan.status().message();
}

TEST(AttentionPlan, TakesANondeterministicBackward) {
  plan::PlanT source = attentionPlan();
  backward(source).nondeterministic = true;
  Result<Plan> plan = Plan::load(serialize(source));
  EXPECT_TRUE(plan.isOk()) << plan.status().message();
}

TEST(AttentionPlan, TakesFewerHeadsOfKeysDropoutAndPadding) {
  plan::PlanT source = attentionPlan();
  for (plan::AttentionT *attention : {&forward(source), &backward(source)})
    attention->key_heads = 1;
  backward(source).operands[7] = moved(backward(source).operands[7], kWidth + kSize, 3 * kWidth); // right behind the key's
  drop(source, forward(source), 0.1);
  pad(source, forward(source), kBatch);
  Result<Plan> plan = Plan::load(serialize(source));
  EXPECT_TRUE(plan.isOk()) << plan.status().message();
}

TEST(AttentionPlan, RefusesHostilePlans) {
  for (const HostileCase &hostile : kCases) {
    SCOPED_TRACE(hostile.name);
    plan::PlanT plan = attentionPlan();
    hostile.damage(plan);
    Result<Plan> loaded = Plan::load(serialize(plan));
    ASSERT_FALSE(loaded.isOk());
    EXPECT_EQ(loaded.status().code(), ExitCode::BadData);
    EXPECT_NE(loaded.status().message().find(hostile.message), std::string::npos) << loaded.status().message();
  }
}

} // namespace
} // namespace tapeout::rt
