// Dynamic loss scaling step by step, by the reference interpreter: the scale against the rules of PyTorch and Paddle, and
// that a skipped step changes nothing else.
#include "codegen/reference/Interpreter.h"
#include "ir/tape/Tape.h"
#include "passes/Passes.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"
#include "gtest/gtest.h"

#include <cmath>
#include <limits>
#include <map>
#include <random>

using namespace mlir;

namespace tapeout {
namespace {

using codegen::reference::Interpreter;
using codegen::reference::Tensor;

constexpr double kInf = std::numeric_limits<double>::infinity();

/// y = w * x with the squared error to zero and Adam: whatever is not finite in x reaches the gradient of w.
class Training {
public:
  explicit Training(const std::string &policy) {
    context_.loadDialect<tape::TapeDialect, func::FuncDialect>();
    module_ = parseSourceString<ModuleOp>(R"(
      func.func @forward(%x: tensor<2xf32> {tape.role = "input", tape.name = "x"},
                         %w: tensor<2xf32> {tape.role = "parameter", tape.name = "w"}) -> tensor<2xf32> {
        %0 = tape.multiply %x, %w : tensor<2xf32>, tensor<2xf32>
        return %0 : tensor<2xf32>
      })", &context_);
    PassManager manager(&context_, ModuleOp::getOperationName());
    AttachLossOptions loss;
    loss.loss = "mean_squared_error";
    manager.addPass(createAttachLoss(loss));
    manager.addPass(createBuildBackward());
    InsertLossScalingOptions scaling;
    scaling.policy = policy;
    manager.addPass(createInsertLossScaling(scaling));
    manager.addPass(createClipGradients());
    manager.addPass(createAttachOptimizer());
    manager.addPass(createVerifyTrainStep());
    EXPECT_TRUE(succeeded(manager.run(*module_)));
    step_ = module_->lookupSymbol<func::FuncOp>("step");
    auto interpreter = Interpreter::create(step_, codegen::reference::Precision::F32);
    EXPECT_TRUE(succeeded(interpreter));
    interpreter_.emplace(std::move(*interpreter));
    for (unsigned i = 0; i < step_.getNumArguments(); ++i) {
      auto type = cast<RankedTensorType>(step_.getArgumentTypes()[i]);
      double start = nameOf(i) == "w" ? 1 : nameOf(i) == "config" ? 0.5 : 0;
      if (auto init = step_.getArgAttrOfType<DictionaryAttr>(i, tape::kInitAttr))
        start = init.getAs<FloatAttr>("a").getValueAsDouble();
      arguments_.push_back({type.getElementType(), type.getShape().vec(), std::vector<double>(type.getNumElements(), start)});
    }
  }

  /// One step on x = (value, 1). Returns the metrics.
  std::map<std::string, double> step(double value) {
    at("x").values = {value, 1};
    auto results = interpreter_->run(arguments_);
    EXPECT_TRUE(succeeded(results));
    std::map<std::string, double> metrics;
    for (auto [i, result] : llvm::enumerate(*results))
      if (auto target = step_.getResultAttrOfType<IntegerAttr>(i, tape::kUpdatesAttr))
        arguments_[target.getInt()] = result;
      else if (auto name = step_.getResultAttrOfType<StringAttr>(i, tape::kNameAttr))
        metrics[name.str()] = result.values.front();
    return metrics;
  }

  Tensor &at(const std::string &name) {
    for (unsigned i = 0; i < arguments_.size(); ++i)
      if (nameOf(i) == name)
        return arguments_[i];
    ADD_FAILURE() << "no argument " << name;
    return arguments_.front();
  }
  double scale() { return at("loss_scale/scale").values.front(); }
  /// Everything that a skipped step must leave alone.
  std::vector<double> trained() {
    std::vector<double> values;
    for (const char *name : {"w", "adamw.m/w", "adamw.v/w", "step"})
      llvm::append_range(values, at(name).values);
    return values;
  }

private:
  std::string nameOf(unsigned i) { return step_.getArgAttrOfType<StringAttr>(i, tape::kNameAttr).str(); }

  MLIRContext context_{MLIRContext::Threading::DISABLED};
  OwningOpRef<ModuleOp> module_;
  func::FuncOp step_;
  std::optional<Interpreter> interpreter_;
  std::vector<Tensor> arguments_;
};

TEST(LossScaling, ShrinksAtOnceAndGrowsAfter2000StepsAsInPyTorch) {
  Training training("torch");
  EXPECT_EQ(training.scale(), 65536);
  training.step(kInf);
  EXPECT_EQ(training.scale(), 32768);
  for (int i = 1; i < 2000; ++i)
    training.step(1);
  EXPECT_EQ(training.scale(), 32768);
  training.step(1);
  EXPECT_EQ(training.scale(), 65536); // after step 2001: the first one was skipped
}

TEST(LossScaling, ShrinksAfterTwoBadStepsInARowAsInPaddle) {
  Training training("paddle");
  EXPECT_EQ(training.scale(), 32768);
  training.step(kInf);
  training.step(1); // breaks the row
  training.step(kInf);
  EXPECT_EQ(training.scale(), 32768);
  training.step(NAN);
  EXPECT_EQ(training.scale(), float(32768 * 0.8));
  for (int i = 0; i < 1000; ++i)
    training.step(1);
  EXPECT_EQ(training.scale(), 2 * float(32768 * 0.8));
  training.at("loss_scale/scale").values = {1.1};
  training.step(kInf);
  training.step(kInf);
  EXPECT_EQ(training.scale(), 1); // not below
}

TEST(LossScaling, DoesNotGrowBeyondTheLargestNumber) {
  Training training("torch");
  training.at("loss_scale/scale").values = {std::ldexp(1.0, 127)};
  training.at("loss_scale/good_steps").values = {1999};
  training.step(1e-30);
  EXPECT_EQ(training.scale(), std::ldexp(1.0, 127));
  EXPECT_EQ(training.at("loss_scale/good_steps").values.front(), 0);
}

TEST(LossScaling, SkipsExactlyTheStepsWhoseGradientIsNotFinite) {
  for (const char *policy : {"torch", "paddle", "1024"}) {
    Training training(policy);
    std::mt19937 random(1);
    int skipped = 0;
    for (int i = 0; i < 50; ++i) {
      bool bad = random() % 4 == 0;
      std::vector<double> before = training.trained();
      auto metrics = training.step(bad ? (i % 2 ? kInf : NAN) : 0.5);
      skipped += bad;
      EXPECT_EQ(metrics["skipped"], bad);
      EXPECT_EQ(metrics["skipped_steps"], skipped);
      if (bad)
        EXPECT_EQ(training.trained(), before) << policy << ", step " << i;
      else
        EXPECT_EQ(training.trained().back(), before.back() + 1) << policy << ", step " << i;
    }
  }
}

// A power of two scales exactly: the same bits as another scale gives.
TEST(LossScaling, LeavesNormAndUpdatesAsTheyAre) {
  Training one("1"), large("65536");
  for (int i = 0; i < 5; ++i) {
    auto a = one.step(0.3 + i), b = large.step(0.3 + i);
    EXPECT_EQ(a["grad_norm"], b["grad_norm"]);
    EXPECT_EQ(one.trained(), large.trained());
  }
}

} // namespace
} // namespace tapeout
