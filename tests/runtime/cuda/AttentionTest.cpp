// Attention through the whole executor, with the fake cuDNN: the graphs mean what they should, in slices or not.
#include "runtime/base/Philox.h"
#include "tests/runtime/AttentionReference.h"
#include "tests/runtime/PlanBuilder.h"
#include "tests/runtime/cuda/FakeDevice.h"

#include <dlfcn.h>

#include <algorithm>
#include <cstring>

namespace tapeout::rt {
namespace {

using namespace test;
using Type = tapeout::ElementType;

class Machine {
public:
  explicit Machine(const plan::PlanT &source, const ExecutorOptions &options = {.threads = 1})
      : plan(std::move(*Plan::load(serialize(source)))) {
    CudaLibraries libraries = fakeLibraries();
    libraries.dnn = *CudnnLibrary::resolve(dlopen(nullptr, RTLD_NOW));
    Result<std::unique_ptr<CudaExecutor>> created = CudaExecutor::create(plan, libraries, options);
    status = created.status();
    if (created.isOk())
      executor = std::move(*created);
  }

  uint32_t slot(const char *name) const {
    for (uint32_t i = 0; i < plan.slotCount(); ++i)
      if (plan.slot(i).name()->string_view() == name)
        return i;
    return UINT32_MAX;
  }
  std::vector<uint8_t> bytes(const char *name) {
    Result<SlotBytes> read = executor->read(slot(name));
    return {read->get().begin(), read->get().end()};
  }
  void fill(const AttentionShape &shape) {
    const Type type = shape.type;
    for (const char *result : {"o", "dqkv"}) // not a number where nothing is written
      ASSERT_TRUE(executor->write(slot(result), [](std::span<uint8_t> bytes) { std::fill(bytes.begin(), bytes.end(), 0xFF); }).isOk());
    if (!shape.lengths.empty()) {
      ASSERT_TRUE(executor->write(slot("lengths"), [&](std::span<uint8_t> bytes) {
        std::memcpy(bytes.data(), shape.lengths.data(), bytes.size());
      }).isOk());
    }
    for (const char *name : {"qkv", "do"})
      ASSERT_TRUE(executor->write(slot(name), [&](std::span<uint8_t> bytes) {
        ASSERT_TRUE((RandomStream{.seed = 7, .stream = uint64_t(name[0])}.fillUniform(type, bytes.data(), 0, bytes.size() / 2, -1.5, 1.5)));
      }).isOk());
  }
  void setDropout(int64_t seed, int64_t offset) {
    for (auto [name, value] : {std::pair("seed", seed), std::pair("offset", offset)})
      ASSERT_TRUE(executor->write(slot(name), [&, value = value](std::span<uint8_t> bytes) {
        std::memcpy(bytes.data(), &value, sizeof value);
      }).isOk());
  }
  void run() {
    ASSERT_TRUE(executor->run(*plan.program("attention")).isOk());
    ASSERT_TRUE(executor->wait().isOk());
  }

  Plan plan;
  Status status;
  std::unique_ptr<CudaExecutor> executor;
};

/// What the fake's generator keeps.
std::vector<bool> kept(const AttentionShape &s, uint64_t seed, uint64_t offset) {
  std::vector<bool> result(s.batch * s.heads * s.tokens * s.tokens);
  for (size_t i = 0; i < result.size(); ++i)
    result[i] = RandomStream{.seed = seed, .stream = offset}.uniform(i) < 1 - s.dropout;
  return result;
}

void expectReference(Machine &machine, const AttentionShape &shape, const std::vector<bool> &kept) {
  ReferenceAttention expected = referenceAttention(shape, toDouble(shape.type, machine.bytes("qkv")),
                                                   toDouble(shape.type, machine.bytes("do")), kept, machine.executor->pool());
  const double bound = shape.type == Type::BF16 ? 6e-3 : 8e-4;
  EXPECT_LT(relativeError(toDouble(shape.type, machine.bytes("o")), expected.result), bound);
  EXPECT_LT(relativeError(toDouble(shape.type, machine.bytes("dqkv")), expected.packedGradient), bound);
  std::vector<uint8_t> bytes = machine.bytes("lse");
  std::vector<float> lse(bytes.size() / sizeof(float));
  std::memcpy(lse.data(), bytes.data(), bytes.size());
  EXPECT_LT(relativeError({lse.begin(), lse.end()}, expected.lse), 1e-5);
}

const AttentionShape kShapes[] = {{Type::BF16, true, 2, 3, 3, 9, 8},       {Type::F16, false, 2, 3, 3, 9, 16},
                                  {Type::BF16, true, 2, 4, 2, 6, 8},       {Type::F16, false, 1, 4, 1, 5, 8},
                                  {Type::F16, true, 2, 1, 1, 6, 8},
                                  {Type::BF16, true, 2, 4, 2, 7, 8, 0.25}, {Type::F16, false, 2, 2, 2, 8, 8, 0.5},
                                  {Type::BF16, false, 4, 2, 2, 6, 8, 0, {6, 3, 2, 1}}, {Type::F16, true, 2, 4, 2, 7, 8, 0.25, {5, 7}}};

TEST(Attention, IsWhatItsDefinitionSays) {
  for (const AttentionShape &shape : kShapes)
    for (bool checkMemory : {false, true}) {
      SCOPED_TRACE(shape.text());
      resetFakeCuda();
      Machine machine(attentionPlan(shape, shape.scratchBytes()), {.threads = 1, .checkMemory = checkMemory});
      ASSERT_TRUE(machine.status.isOk()) << machine.status.message();
      machine.fill(shape);
      machine.setDropout(3, 5);
      for (int run = 0; run < 3; ++run) // queued, captured, replayed
        machine.run();
      EXPECT_EQ(fakeCuda().attentions, 6);
      expectReference(machine, shape, shape.dropout > 0 ? kept(shape, 3, 5) : std::vector<bool>());
    }
}

TEST(Attention, IsTheSameWhereItMayAddInAnyOrder) {
  for (const AttentionShape &shape : kShapes) {
    SCOPED_TRACE(shape.text());
    resetFakeCuda();
    Machine machine(nondeterministicAttentionPlan(shape), {.threads = 1, .checkMemory = true});
    ASSERT_TRUE(machine.status.isOk()) << machine.status.message();
    machine.fill(shape);
    machine.setDropout(3, 5);
    for (int run = 0; run < 3; ++run) // each starts with sums of zero
      machine.run();
    EXPECT_EQ(fakeCuda().attentions, 6) << "in one slice";
    expectReference(machine, shape, shape.dropout > 0 ? kept(shape, 3, 5) : std::vector<bool>());
  }
}

TEST(Attention, RunsInSlicesWhereScratchMemoryIsShort) {
  const AttentionShape shape{Type::BF16, true, 6, 2, 2, 9, 8, 0, {9, 4, 1, 8, 6, 3}};
  std::vector<uint8_t> whole;
  for (int64_t slices : {1, 2, 6}) {
    resetFakeCuda();
    Machine machine(attentionPlan(shape, shape.scratchBytes(slices) - (60 << 10))); // nearly without the reserve
    ASSERT_TRUE(machine.status.isOk()) << machine.status.message();
    machine.fill(shape);
    machine.run();
    EXPECT_EQ(fakeCuda().attentions, 1 + slices);
    expectReference(machine, shape, {});
    if (whole.empty())
      whole = machine.bytes("dqkv");
    EXPECT_EQ(machine.bytes("dqkv"), whole);
  }
}

TEST(Attention, DropsInOneSliceOrNotAtAll) {
  const AttentionShape shape{Type::BF16, true, 6, 2, 2, 9, 8, 0.5};
  resetFakeCuda();
  Machine machine(attentionPlan(shape, shape.scratchBytes(2)));
  EXPECT_EQ(machine.status.code(), ExitCode::Unavailable);
  EXPECT_NE(machine.status.message().find("--skip-pass select-library-attention"), std::string::npos) << machine.status.message();
}

TEST(Attention, NeedsScratchMemoryForOneSequence) {
  const AttentionShape shape{Type::BF16, true, 2, 2, 2, 9, 8};
  resetFakeCuda();
  EXPECT_EQ(Machine(attentionPlan(shape, 4096)).status.code(), ExitCode::Unavailable);
  EXPECT_EQ(Machine(attentionPlan(shape, 64)).status.code(), ExitCode::Unavailable); // less than the sums of the rows
}

TEST(Attention, DropsAnewForOtherNumbers) {
  const AttentionShape shape{Type::F16, false, 2, 2, 2, 8, 8, 0.5};
  resetFakeCuda();
  Machine machine(attentionPlan(shape, shape.scratchBytes()));
  ASSERT_TRUE(machine.status.isOk()) << machine.status.message();
  machine.fill(shape);
  for (auto [seed, offset] : {std::pair(1, 0), std::pair(1, 0), std::pair(2, 0), std::pair(1, 7)}) { // the graph reads them anew
    machine.setDropout(seed, offset);
    machine.run();
    expectReference(machine, shape, kept(shape, seed, offset));
  }
}

TEST(Attention, WritesAllOverItsScratchMemory) {
  const AttentionShape shape{Type::BF16, true, 1, 1, 1, 4, 8};
  PlanBuilder builder;
  builder.plan = attentionPlan(shape, shape.scratchBytes());
  uint32_t kept = builder.slot("kept", plan::SlotKind::Arena, plan::ElementType::BF16, {shape.tokens * shape.size});
  uint32_t again = builder.slot("again", plan::SlotKind::OptimizerState, plan::ElementType::BF16, {shape.tokens * shape.size});
  plan::ProgramT &program = *builder.plan.programs[0];
  auto copy = [&](uint32_t from, uint32_t to) {
    plan::CopyT body;
    body.source = from, body.destination = to, body.bytes = 2 * shape.tokens * shape.size;
    builder.add(program, std::move(body), 0, 0);
  };
  copy(slotIndex(builder.plan, "o"), kept); // behind the forward
  std::swap(program.instructions[1], program.instructions[2]);
  copy(kept, again);
  const ExecutorOptions check{.threads = 1, .checkMemory = true};
  resetFakeCuda();
  EXPECT_TRUE(Machine(builder.plan, check).status.isOk());
  builder.plan.slots[kept]->offset = builder.plan.slots[slotIndex(builder.plan, "scratch")]->offset;
  resetFakeCuda();
  Status status = Machine(builder.plan, check).status;
  EXPECT_NE(status.message().find("reads 'kept' after 'scratch' was written over it"), std::string::npos) << status.message();
}

TEST(Attention, LeavesNothingBehind) {
  resetFakeCuda();
  {
    Machine machine(attentionPlan(kShapes[5], kShapes[5].scratchBytes()));
    ASSERT_TRUE(machine.status.isOk());
  }
  EXPECT_EQ(fakeCuda().liveObjects, 0);
}

} // namespace
} // namespace tapeout::rt
