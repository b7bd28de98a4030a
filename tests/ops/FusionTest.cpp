// Fused kernels against one kernel per op: the same bits; and against the reference interpreter.
#include "ir/tape/Attention.h"
#include "ir/tape/Decompose.h"
#include "ir/tape/Elementwise.h"
#include "ir/tape/Loss.h"
#include "ir/tape/Normalization.h"
#include "passes/Passes.h"
#include "tests/ops/CpuPrograms.h"
#include "tests/ops/RandomGraph.h"

#include "mlir/Pass/PassManager.h"
#include "mlir/Transforms/Passes.h"
#include "gtest/gtest.h"

#include <cmath>

using namespace mlir;
using namespace tapeout::tape;

namespace tapeout::ops {

namespace {
using Build = std::function<Value(TapeBuilder &, ValueRange)>;

bool runPasses(ModuleOp module, std::unique_ptr<Pass> pass) {
  PassManager manager(module.getContext(), ModuleOp::getOperationName());
  manager.addPass(createDecompose());
  manager.addPass(createCanonicalizerPass());
  manager.addPass(std::move(pass));
  manager.addPass(createVerifyFusionGroups());
  return succeeded(manager.run(module));
}

TestModule grouped(const TestModule &test, bool merge) {
  OwningOpRef<ModuleOp> copy = cast<ModuleOp>(test.module.get()->clone());
  func::FuncOp function = *copy->getOps<func::FuncOp>().begin();
  FormFusionGroupsOptions options;
  options.merge = merge;
  EXPECT_TRUE(runPasses(*copy, createFormFusionGroups(options)));
  return {std::move(copy), function};
}

// Forward for even seeds, gradients for odd ones.
TestModule makeGraph(MLIRContext &context, uint64_t seed) {
  TestModule graph = makeRandomGraph(context, seed);
  if (seed % 2 == 0)
    return graph;
  return makeGradientFunction(graph.function,
                              llvm::to_vector(llvm::seq<unsigned>(0, graph.function.getNumResults())));
}


class FusionTest : public testing::Test {
protected:
  struct Case {
    std::string name;
    TestModule fused, single;
    std::vector<Tensor> arguments, expected;
    size_t fusedProgram, singleProgram;
  };

  void addCase(std::string name, const TestModule &test, std::vector<Tensor> arguments) {
    Case added{name, grouped(test, true), grouped(test, false), std::move(arguments), {}, 0, 0};
    added.expected = interpret(test.function, added.arguments, Precision::F32);
    ASSERT_FALSE(added.expected.empty()) << name;
    added.fusedProgram = programs_.add(added.fused.function);
    added.singleProgram = programs_.add(added.single.function);
    cases_.push_back(std::move(added));
  }

  // The op's results, and the gradients of its arguments.
  void addPattern(const std::string &name, const std::vector<Input> &inputs, const Build &build) {
    std::vector<Tensor> arguments = makeArguments(*context_, inputs, 1);
    std::vector<Type> types;
    for (const Tensor &argument : arguments)
      types.push_back(RankedTensorType::get(argument.shape, argument.elementType));
    TestModule forward = makeFunction(*context_, types, [&](TapeBuilder &t, ValueRange x) {
      return std::vector<Value>{build(t, x)};
    });
    addCase(name, forward, arguments);
    TestModule gradient = makeGradientFunction(forward.function, {0});
    arguments.push_back(randomTensor(forward.function.getResultTypes()[0], 2));
    addCase(name + ", gradient", gradient, arguments);
  }

  void checkAll(double tolerance) {
    ASSERT_TRUE(programs_.compile());
    for (const Case &tested : cases_) {
      SCOPED_TRACE(tested.name);
      std::vector<Values> fused = programs_.run(tested.fusedProgram, tested.arguments);
      std::vector<Values> single = programs_.run(tested.singleProgram, tested.arguments);
      ASSERT_EQ(fused.size(), tested.expected.size());
      ASSERT_EQ(single.size(), tested.expected.size());
      for (size_t i = 0; i < fused.size(); ++i) {
        expectClose(fused[i], single[i], 0, "fused result " + std::to_string(i));
        expectClose(fused[i], tested.expected[i].values, tolerance, "result " + std::to_string(i));
      }
    }
  }

  std::unique_ptr<MLIRContext> context_ = makeContext();
  CpuPrograms programs_{*context_};
  std::vector<Case> cases_;
};

TEST_F(FusionTest, GroupsOfRandomGraphsComputeTheSame) {
  for (uint64_t seed = 0; seed < 500; ++seed) {
    TestModule graph = makeGraph(*context_, seed);
    std::vector<Tensor> arguments = makeRandomGraphArguments(graph.function, seed);
    std::vector<Tensor> expected = interpret(graph.function, arguments, Precision::F32);
    std::vector<Tensor> fused = interpret(grouped(graph, true).function, arguments, Precision::F32);
    ASSERT_EQ(fused.size(), expected.size()) << "seed " << seed;
    for (size_t i = 0; i < fused.size(); ++i)
      expectClose(fused[i].values, expected[i].values, 0, "seed " + std::to_string(seed) + ", result " + std::to_string(i));
  }
}

// Every row count and width around the 16 lanes and the 64 partial results of a row.
void forEachSize(const std::function<void(int64_t rows, int64_t columns, const std::string &size)> &visit) {
  for (int64_t rows : {1, 3, 17})
    for (int64_t columns : {1, 15, 16, 17, 64, 65, 1000})
      visit(rows, columns, std::to_string(rows) + " x " + std::to_string(columns));
}

TEST_F(FusionTest, Softmax) {
  forEachSize([&](int64_t rows, int64_t columns, const std::string &size) {
    addPattern(size, {floats({rows, columns})}, [](TapeBuilder &t, ValueRange x) -> Value {
      return t.builder().create<SoftmaxOp>(t.loc(), t.mul(x[0], 1.5));
    });
  });
  checkAll(1e-5);
}

TEST_F(FusionTest, LayerNormOfASum) {
  forEachSize([&](int64_t rows, int64_t columns, const std::string &size) {
    std::vector<Input> inputs = {floats({rows, columns}), floats({rows, columns}), floats({columns}), floats({columns})};
    addPattern(size, inputs, [](TapeBuilder &t, ValueRange x) -> Value {
      Value sum = t.add(x[0], x[1]);
      Value norm = t.builder().create<LayerNormOp>(t.loc(), sum, x[2], x[3], APFloat(1e-2)).getResult();
      return t.add(sum, t.builder().create<GeluOp>(t.loc(), norm, t.builder().getStringAttr("tanh")));
    });
  });
  checkAll(1e-4);
}

TEST_F(FusionTest, MeanCrossEntropy) {
  forEachSize([&](int64_t rows, int64_t columns, const std::string &size) {
    addPattern(size, {floats({rows, columns}), integers({rows}, 0, columns - 1)}, [](TapeBuilder &t, ValueRange x) {
      return t.reduceAll("sum", t.builder().create<CrossEntropyOp>(t.loc(), x[0], x[1], uint64_t(-100), APFloat(0.0)).getLosses());
    });
  });
  checkAll(1e-5);
}

TEST_F(FusionTest, BiasedGelu) {
  forEachSize([&](int64_t rows, int64_t columns, const std::string &size) {
    addPattern(size, {floats({rows, columns}), floats({columns})}, [](TapeBuilder &t, ValueRange x) -> Value {
      Value sum = t.add(x[0], t.broadcastLast(x[1], x[0]));
      return t.builder().create<GeluOp>(t.loc(), sum, t.builder().getStringAttr("none"));
    });
  });
  checkAll(1e-4);
}

TEST_F(FusionTest, CausalAttention) {
  for (int64_t tokens : {1, 3, 17, 65})
    for (double dropout : {0.0, 0.2}) {
      std::vector<Input> inputs(3, floats({2, tokens, 2, 5}));
      inputs.push_back(scalar("i64", 1234));
      inputs.push_back(scalar("i64", 3));
      std::string name = std::to_string(tokens) + " tokens, dropout " + std::to_string(dropout);
      addPattern(name, inputs, [=](TapeBuilder &t, ValueRange x) -> Value {
        return t.builder()
            .create<AttentionOp>(t.loc(), x[0], x[1], x[2], Value(), x[3], x[4], true, APFloat(1 / std::sqrt(5.0)), APFloat(dropout), 7)
            .getResult();
      });
    }
  checkAll(1e-4);
}
} // namespace

} // namespace tapeout::ops
