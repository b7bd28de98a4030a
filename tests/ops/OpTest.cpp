// Every sample of every op: its text, its values and its gradients; and every op has a sample.
#include "tests/ops/Support.h"

#include "mlir/Parser/Parser.h"
#include "gtest/gtest.h"

#include <set>

using namespace mlir;

namespace tapeout::ops {

namespace {
class OpTest : public testing::TestWithParam<size_t> {
protected:
  const Sample &sample() const { return allSamples()[GetParam()]; }

  void SetUp() override {
    context_ = makeContext();
    test_ = makeFunction(*context_, sample());
    ASSERT_TRUE(succeeded(test_.module->verify()));
    arguments_ = makeArguments(*context_, sample().inputs, GetParam() + 1);
  }

  std::unique_ptr<MLIRContext> context_;
  TestModule test_;
  std::vector<Tensor> arguments_;
};

std::string textOf(ModuleOp module) {
  std::string text;
  llvm::raw_string_ostream stream(text);
  module.print(stream);
  return text;
}

TEST_P(OpTest, PrintsAndParses) {
  std::string text = textOf(*test_.module);
  OwningOpRef<ModuleOp> parsed = parseSourceString<ModuleOp>(text, context_.get());
  ASSERT_TRUE(parsed) << text;
  EXPECT_EQ(textOf(*parsed), text);
}

TEST_P(OpTest, HasTheExpectedValues) {
  std::vector<Tensor> exact = interpret(test_.function, arguments_, Precision::F64);
  std::vector<Tensor> rounded = interpret(test_.function, arguments_, Precision::F32);
  ASSERT_EQ(exact.size(), test_.function.getNumResults());
  ASSERT_EQ(rounded.size(), test_.function.getNumResults());
  auto isNarrow = [](Type type) {
    Type element = cast<RankedTensorType>(type).getElementType();
    return element.isBF16() || element.isF16();
  };
  FunctionType type = test_.function.getFunctionType();
  double tolerance =
      llvm::any_of(type.getInputs(), isNarrow) || llvm::any_of(type.getResults(), isNarrow) ? 2e-2 : 2e-5;
  for (size_t i = 0; i < exact.size(); ++i)
    expectClose(rounded[i].values, exact[i].values, tolerance, "fp32, result " + std::to_string(i));
  if (!sample().expected)
    return;
  Arrays values;
  for (const Tensor &argument : arguments_)
    values.push_back(argument.values);
  Arrays expected = sample().expected(values);
  ASSERT_EQ(expected.size(), exact.size());
  for (size_t i = 0; i < exact.size(); ++i)
    expectClose(exact[i].values, expected[i], 1e-11, "fp64, result " + std::to_string(i));
}

TEST_P(OpTest, HasTheGradientOfFiniteDifferences) {
  Operation *op = test_.function.getBody().front().getTerminator()->getOperand(0).getDefiningOp();
  if (isa<tape::DifferentiableOpInterface>(op) && !sample().gradientsOf.empty())
    checkGradients(test_.function, arguments_, sample().gradientsOf);
}

INSTANTIATE_TEST_SUITE_P(All, OpTest, testing::Range<size_t>(0, allSamples().size()),
                         [](const auto &info) { return allSamples()[info.param].name; });

// Kernels that are written by hand stand for part of an op that has samples; they are tested where they run, like
// AttentionGradientTest.
TEST(SampleTable, HasEveryOp) {
  auto context = makeContext();
  std::set<std::string> sampled;
  for (const Sample &sample : allSamples()) {
    TestModule test = makeFunction(*context, sample);
    test.module->walk([&](Operation *op) { sampled.insert(op->getName().getStringRef().str()); });
  }
  for (RegisteredOperationName op : context->getRegisteredOperations())
    if (op.getDialectNamespace() == "tape" && !op.hasTrait<tape::HandWrittenKernel>()) {
      EXPECT_TRUE(sampled.contains(op.getStringRef().str())) << op.getStringRef().str() << " has no sample";
    }
}
} // namespace

} // namespace tapeout::ops
