// The kernels of the target cpu against the reference interpreter: every sample and some random graphs, one kernel per
// op.
#include "ir/tape/Decompose.h"
#include "ir/tape/Target.h"
#include "tests/ops/CpuPrograms.h"
#include "tests/ops/ProgramKernels.h"
#include "tests/ops/RandomGraph.h"

#include "gtest/gtest.h"

using namespace mlir;

namespace tapeout::ops {

namespace {
struct Case {
  std::string name;
  TestModule test;
  std::vector<Tensor> arguments;
  std::vector<Tensor> expected;
  size_t program;
};

class CpuTest : public testing::Test {
protected:
  void addCase(std::string name, TestModule test, std::vector<Tensor> arguments) {
    Case added{name, std::move(test), std::move(arguments), {}, 0};
    added.expected = interpret(added.test.function, added.arguments, Precision::F32);
    ASSERT_FALSE(added.expected.empty()) << name;
    (*added.test.module)->setAttr(tape::kTargetAttr, StringAttr::get(context_.get(), ProgramKernels::target()));
    ASSERT_TRUE(succeeded(tape::decomposeOps(*added.test.module)));
    added.program = programs_.add(added.test.function);
    cases_.push_back(std::move(added));
  }

  void checkAll(double tolerance) {
    ASSERT_TRUE(programs_.compile());
    for (const Case &tested : cases_) {
      SCOPED_TRACE(tested.name);
      std::vector<Values> results = programs_.run(tested.program, tested.arguments);
      ASSERT_EQ(results.size(), tested.expected.size());
      for (size_t i = 0; i < results.size(); ++i)
        expectClose(results[i], tested.expected[i].values, tolerance, "result " + std::to_string(i));
    }
  }

  std::unique_ptr<MLIRContext> context_ = makeContext();
  CpuPrograms programs_{*context_};
  std::vector<Case> cases_;
};

TEST_F(CpuTest, SamplesMatchTheReference) {
  for (const auto &[i, sample] : llvm::enumerate(allSamples()))
    if (sample.target.empty() || sample.target == ProgramKernels::target())
      addCase(sample.name, makeFunction(*context_, sample), makeArguments(*context_, sample.inputs, i + 1));
  checkAll(1e-5);
}

/// The sample as mixed precision would run it: tensors of f32 become `element`. None for ops that compute in f32.
std::optional<Sample> inLowPrecision(MLIRContext &context, const Sample &sample, const std::string &element) {
  TestModule test = makeFunction(context, sample);
  Operation *op = test.function.getBody().front().getTerminator()->getOperand(0).getDefiningOp();
  auto facts = cast<tape::FactsOpInterface>(op);
  tape::AmpClass amp = facts.getAmpClass();
  if (amp == tape::AmpClass::Never || amp == tape::AmpClass::Inside || op->getNumOperands() != sample.inputs.size())
    return std::nullopt;
  Sample low = sample;
  for (auto [i, input] : llvm::enumerate(low.inputs))
    if (input.element == "f32" && !input.shape.empty() && !facts.keepsPrecision(i))
      input.element = element;
  return low;
}

// One bit in the last place of the result may differ where the f32 result lies near the middle of two values.
TEST_F(CpuTest, LowPrecisionSamplesMatchTheReference) {
  for (std::string element : {"bf16", "f16"})
    for (const auto &[i, sample] : llvm::enumerate(allSamples()))
      if (auto low = inLowPrecision(*context_, sample, element))
        addCase(sample.name + " " + element, makeFunction(*context_, *low), makeArguments(*context_, low->inputs, i + 1));
  EXPECT_GT(cases_.size(), 200u);
  checkAll(8e-3);
}

TEST_F(CpuTest, RandomGraphsMatchTheReference) {
  for (uint64_t seed = 0; seed < 10; ++seed) {
    TestModule graph = makeRandomGraph(*context_, seed);
    std::vector<Tensor> arguments = makeRandomGraphArguments(graph.function, seed);
    addCase("seed " + std::to_string(seed), std::move(graph), arguments);
  }
  checkAll(1e-4);
}
} // namespace

} // namespace tapeout::ops
