// Random graphs: text, decomposition, values and gradients hold for whole graphs too.
#include "ir/tape/Decompose.h"
#include "tests/ops/RandomGraph.h"

#include "mlir/Parser/Parser.h"
#include "gtest/gtest.h"

using namespace mlir;

namespace tapeout::ops {

namespace {
std::string textOf(ModuleOp module) {
  std::string text;
  llvm::raw_string_ostream stream(text);
  module.print(stream);
  return text;
}

TEST(RandomGraph, DependsOnTheSeedOnly) {
  auto context = makeContext();
  EXPECT_EQ(textOf(*makeRandomGraph(*context, 5).module), textOf(*makeRandomGraph(*context, 5).module));
  EXPECT_NE(textOf(*makeRandomGraph(*context, 5).module), textOf(*makeRandomGraph(*context, 6).module));
}

TEST(RandomGraph, PrintsAndParses) {
  auto context = makeContext();
  for (uint64_t seed = 0; seed < 40; ++seed) {
    TestModule graph = makeRandomGraph(*context, seed);
    ASSERT_TRUE(succeeded(graph.module->verify())) << "seed " << seed;
    std::string text = textOf(*graph.module);
    OwningOpRef<ModuleOp> parsed = parseSourceString<ModuleOp>(text, context.get());
    ASSERT_TRUE(parsed) << text;
    EXPECT_EQ(textOf(*parsed), text);
  }
}

TEST(RandomGraph, DecomposesToTheSameValues) {
  auto context = makeContext();
  for (uint64_t seed = 0; seed < 40; ++seed) {
    TestModule graph = makeRandomGraph(*context, seed);
    std::vector<Tensor> arguments = makeRandomGraphArguments(graph.function, seed);
    std::vector<Tensor> rounded = interpret(graph.function, arguments, Precision::F32);
    std::vector<Tensor> exact = interpret(graph.function, arguments, Precision::F64);
    ASSERT_TRUE(succeeded(tape::decomposeOps(*graph.module)));
    ASSERT_TRUE(succeeded(graph.module->verify())) << "seed " << seed;
    std::vector<Tensor> decomposed = interpret(graph.function, arguments, Precision::F32);
    ASSERT_EQ(rounded.size(), decomposed.size());
    ASSERT_FALSE(rounded.empty());
    for (size_t i = 0; i < rounded.size(); ++i) {
      std::string what = "seed " + std::to_string(seed) + ", result " + std::to_string(i);
      EXPECT_EQ(rounded[i].values, decomposed[i].values) << what; // and so no NaN
      expectClose(rounded[i].values, exact[i].values, 1e-3, what);
    }
  }
}

TEST(RandomGraph, HasTheGradientOfFiniteDifferences) {
  auto context = makeContext();
  for (uint64_t seed = 100; seed < 120; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    TestModule graph = makeRandomGraph(*context, seed);
    std::vector<unsigned> outputs(graph.function.getNumResults());
    for (unsigned i = 0; i < outputs.size(); ++i)
      outputs[i] = i;
    checkGradients(graph.function, makeRandomGraphArguments(graph.function, seed), outputs, 1e-5, 8);
  }
}
} // namespace

} // namespace tapeout::ops
