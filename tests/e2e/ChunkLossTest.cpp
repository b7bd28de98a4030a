// Steps whose logits come in chunks, by the reference interpreter: they give what whole ones give.
#include "codegen/reference/Interpreter.h"
#include "passes/Functions.h"
#include "passes/Passes.h"
#include "tests/ops/Support.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Transforms/Passes.h"
#include "gtest/gtest.h"

using namespace mlir;

namespace tapeout {
namespace {

using ops::Tensor;

// One table is embedding and head, another head has a bias and its weight the other way round.
constexpr char kTied[] = R"(
  func.func @forward(%tokens: tensor<6x4xi32> {tape.role = "input", tape.name = "tokens"},
                     %w: tensor<16x8xf32> {tape.role = "parameter", tape.name = "w"}) -> tensor<6x4x16xf32> {
    %0 = tape.embedding %w[%tokens] : tensor<16x8xf32>, tensor<6x4xi32>
    %1 = tape.tanh %0 : tensor<6x4x8xf32>
    %2 = tape.dot_general %1, %w batch [] x [] contract [2] x [1] : tensor<6x4x8xf32>, tensor<16x8xf32>
    return %2 : tensor<6x4x16xf32>
  })";
constexpr char kBias[] = R"(
  func.func @forward(%tokens: tensor<6x4xi32> {tape.role = "input", tape.name = "tokens"},
                     %table: tensor<16x8xf32> {tape.role = "parameter", tape.name = "table"},
                     %w: tensor<8x16xf32> {tape.role = "parameter", tape.name = "w"},
                     %b: tensor<16xf32> {tape.role = "parameter", tape.name = "b"}) -> tensor<6x4x16xf32> {
    %0 = tape.embedding %table[%tokens] : tensor<16x8xf32>, tensor<6x4xi32>
    %1 = tape.tanh %0 : tensor<6x4x8xf32>
    %2 = tape.dot_general %1, %w batch [] x [] contract [2] x [0] : tensor<6x4x8xf32>, tensor<8x16xf32>
    %3 = tape.broadcast_in_dim %b to [6, 4, 16] dims [2] : tensor<16xf32>
    %4 = tape.add %2, %3 : tensor<6x4x16xf32>, tensor<6x4x16xf32>
    return %4 : tensor<6x4x16xf32>
  })";

// Every sample is told from all others: rows are read in parts and as a whole.
constexpr char kSamples[] = R"(
  func.func @forward(%x: tensor<6x8xf32> {tape.role = "input", tape.name = "x"},
                     %w: tensor<8x8xf32> {tape.role = "parameter", tape.name = "w"}) -> tensor<6x6xf32> {
    %0 = tape.dot_general %x, %w batch [] x [] contract [1] x [0] : tensor<6x8xf32>, tensor<8x8xf32>
    %1 = tape.dot_general %0, %0 batch [] x [] contract [1] x [1] : tensor<6x8xf32>, tensor<6x8xf32>
    return %1 : tensor<6x6xf32>
  })";

struct Case {
  const char *model;
  std::string precision = "fp32", loss = "cross_entropy";
  double smoothing = 0;
};

class ChunkLossTest : public testing::Test {
protected:
  /// The results of @step and @evaluate.
  std::vector<Tensor> run(const Case &test, int64_t chunks, const std::vector<double> &labels) {
    auto module = parseSourceString<ModuleOp>(test.model, context_.get());
    PassManager manager(context_.get(), ModuleOp::getOperationName());
    AttachLossOptions loss;
    loss.loss = test.loss;
    loss.labelSmoothing = test.smoothing;
    manager.addPass(createAttachLoss(loss));
    manager.addPass(createBuildBackward());
    if (test.precision == "fp16")
      manager.addPass(createInsertLossScaling());
    manager.addPass(createClipGradients());
    AttachOptimizerOptions optimizer;
    optimizer.optimizer = "sgd";
    manager.addPass(createAttachOptimizer(optimizer));
    manager.addPass(createCanonicalizerPass());
    manager.addPass(createCSEPass());
    manager.addPass(createVerifyTrainStep());
    if (test.precision != "fp32") {
      InsertAmpCastsOptions amp;
      amp.precision = test.precision;
      manager.addPass(createInsertAmpCasts(amp));
    }
    ChunkLossOptions options;
    options.chunks = chunks;
    manager.addPass(createChunkLoss(options));
    EXPECT_TRUE(succeeded(manager.run(*module)));
    std::vector<Tensor> results;
    unsigned joined = 0;
    for (auto function : module->getOps<func::FuncOp>()) {
      std::vector<Tensor> arguments;
      for (unsigned i = 0; i < function.getNumArguments(); ++i)
        arguments.push_back(argument(function, i, labels));
      auto precision = test.precision == "fp32" ? ops::Precision::F64 : ops::Precision::F32;
      llvm::append_range(results, ops::interpret(function, arguments, precision));
      function.walk([&](Operation *op) { joined += op->getName().getStringRef() == "tape.concatenate"; });
    }
    // Losses of positions and the gradient of the rows; losses. Those of another loss are sums already.
    EXPECT_EQ(joined, chunks == 1 ? 0u : test.loss == "cross_entropy" ? 3u : 1u);
    return results;
  }

  static Tensor argument(func::FuncOp function, unsigned i, const std::vector<double> &labels) {
    auto type = cast<RankedTensorType>(function.getArgumentTypes()[i]);
    StringRef name = argumentAttr(function, i, tape::kNameAttr);
    Tensor tensor = ops::randomTensor(type, i + 1);
    if (name == "labels" && type.getElementType().isInteger(32))
      tensor.values.assign(labels.begin(), labels.begin() + type.getNumElements());
    else if (name == "tokens")
      for (size_t k = 0; k < tensor.values.size(); ++k)
        tensor.values[k] = 5 * k % 16;
    else if (argumentAttr(function, i, tape::kRoleAttr) != tape::kRoleParameter && name != "labels")
      std::fill(tensor.values.begin(), tensor.values.end(), name == "loss_scale/scale" ? 1024 : name == "config" ? 0.5 : 0);
    return tensor;
  }

  void expectSame(const Case &test, const std::vector<double> &labels) {
    std::vector<Tensor> whole = run(test, 1, labels);
    for (int64_t chunks : {2, 3, 4, 6}) {
      SCOPED_TRACE(chunks);
      std::vector<Tensor> chunked = run(test, chunks, labels);
      ASSERT_EQ(chunked.size(), whole.size());
      for (size_t i = 0; i < whole.size(); ++i)
        ops::expectClose(chunked[i].values, whole[i].values, test.precision == "fp32" ? 1e-13 : 2e-7,
                         "result " + std::to_string(i));
    }
  }

  /// Of 6 samples of 4 tokens; those that `counts` refuses are ignored.
  template <typename Counts> static std::vector<double> labels(Counts counts) {
    std::vector<double> labels;
    for (int64_t i = 0; i < 24; ++i)
      labels.push_back(counts(i / 4) ? 7 * i % 6 : -100);
    return labels;
  }

  std::unique_ptr<MLIRContext> context_ = ops::makeContext();
};

TEST_F(ChunkLossTest, GivesTheSameStep) {
  for (const char *model : {kTied, kBias})
    for (const char *precision : {"fp32", "bf16", "fp16"}) {
      SCOPED_TRACE(precision);
      expectSame({model, precision}, labels([](int64_t) { return true; }));
      expectSame({model, precision, "cross_entropy", 0.1}, labels([](int64_t sample) { return sample % 2 == 1; }));
    }
}

TEST_F(ChunkLossTest, CountsTargetsOfAllChunks) {
  for (const char *model : {kTied, kBias}) {
    expectSame({model}, labels([](int64_t sample) { return sample == 2; })); // in one chunk of them
    expectSame({model}, labels([](int64_t) { return false; }));
  }
}

TEST_F(ChunkLossTest, ReadsRowsInPartsAndWhole) {
  expectSame({kSamples}, labels([](int64_t sample) { return sample > 0; }));
}

TEST_F(ChunkLossTest, TakesOtherLossesOfRows) { expectSame({kBias, "fp32", "mean_squared_error"}, {}); }

} // namespace
} // namespace tapeout
