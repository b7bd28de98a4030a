// The reference interpreter: rounding, what it refuses, and the decomposition that it relies on.
#include "ir/tape/Decompose.h"
#include "ir/tape/Embedding.h"
#include "ir/tape/Normalization.h"
#include "ir/tape/Random.h"
#include "tests/ops/Support.h"

#include "mlir/IR/Diagnostics.h"
#include "gtest/gtest.h"

using namespace mlir;
using namespace tapeout::tape;

namespace tapeout::ops {

namespace {
class InterpreterTest : public testing::Test {
protected:
  using Build = std::function<std::vector<Value>(TapeBuilder &, ValueRange)>;

  RankedTensorType f32(std::vector<int64_t> shape) {
    return RankedTensorType::get(shape, Float32Type::get(context_.get()));
  }
  Tensor tensor(RankedTensorType type, std::vector<double> values) {
    return {type.getElementType(), type.getShape().vec(), values};
  }
  std::vector<double> run(std::vector<Type> types, const Build &build, std::vector<Tensor> arguments,
                          Precision precision) {
    std::vector<Tensor> results = interpret(makeFunction(*context_, types, build).function, arguments, precision);
    return results.empty() ? std::vector<double>() : results[0].values;
  }
  // The diagnostics of what `action` does.
  std::string errorOf(const std::function<void()> &action) {
    std::string text;
    ScopedDiagnosticHandler handler(context_.get(), [&](Diagnostic &diagnostic) { text += diagnostic.str() + "\n"; });
    action();
    return text;
  }

  std::unique_ptr<MLIRContext> context_ = makeContext();
};

TEST_F(InterpreterTest, RoundsEveryOperationInFp32Only) {
  auto build = [](TapeBuilder &t, ValueRange x) {
    return std::vector<Value>{t.sub(t.add(x[0], t.constantLike(x[0], 1e-9)), x[0])};
  };
  Tensor one = tensor(f32({1}), {1.0});
  EXPECT_EQ(run({f32({1})}, build, {one}, Precision::F32), std::vector<double>{0.0});
  EXPECT_NEAR(run({f32({1})}, build, {one}, Precision::F64)[0], 1e-9, 1e-15);
}

TEST_F(InterpreterTest, KeepsAllDigitsOfConstantsInFp64) {
  auto build = [](TapeBuilder &t, ValueRange) { return std::vector<Value>{t.constant(t.builder().getF32Type(), 0.1)}; };
  EXPECT_EQ(run({}, build, {}, Precision::F64)[0], 0.1);
  EXPECT_EQ(run({}, build, {}, Precision::F32)[0], double(0.1f));
}

TEST_F(InterpreterTest, RoundsArgumentsToTheirType) {
  auto identity = [](TapeBuilder &, ValueRange x) { return std::vector<Value>{x[0], x[0]}; };
  EXPECT_EQ(run({f32({1})}, identity, {tensor(f32({1}), {0.1})}, Precision::F32)[0], double(0.1f));
  EXPECT_EQ(run({f32({1})}, identity, {tensor(f32({1}), {0.1})}, Precision::F64)[0], 0.1);
  auto bf16 = RankedTensorType::get({2}, BFloat16Type::get(context_.get()));
  EXPECT_EQ(run({bf16}, identity, {tensor(bf16, {1 + 1.0 / 256, 1 + 3.0 / 256})}, Precision::F32),
            (std::vector<double>{1.0, 1 + 1.0 / 64})); // ties to even
}

TEST_F(InterpreterTest, RoundsSumsOnce) {
  auto build = [](TapeBuilder &t, ValueRange x) { return std::vector<Value>{t.reduceAll("sum", x[0])}; };
  std::vector<double> values(3000, double(0.1f));
  EXPECT_EQ(run({f32({3000})}, build, {tensor(f32({3000}), values)}, Precision::F32)[0],
            double(float(3000 * double(0.1f))));
}

TEST_F(InterpreterTest, CanRunManyTimes) {
  TestModule test = makeFunction(*context_, {f32({2})}, [](TapeBuilder &t, ValueRange x) {
    return std::vector<Value>{t.mul(x[0], x[0])};
  });
  auto interpreter = codegen::reference::Interpreter::create(test.function, Precision::F64);
  ASSERT_TRUE(succeeded(interpreter));
  for (double value : {1.0, 2.0, 3.0})
    EXPECT_EQ((*interpreter->run(tensor(f32({2}), {value, -value})))[0].values, std::vector<double>(2, value * value));
}

TEST_F(InterpreterTest, RefusesArgumentsOfAnotherType) {
  auto identity = [](TapeBuilder &, ValueRange x) { return std::vector<Value>{x[0]}; };
  auto error = [&](std::vector<Tensor> arguments) {
    return errorOf([&] { run({f32({2})}, identity, arguments, Precision::F32); });
  };
  EXPECT_NE(error({}).find("takes 1 arguments, not 0"), std::string::npos);
  EXPECT_NE(error({tensor(f32({3}), {1, 2, 3})}).find("argument 0"), std::string::npos);
  EXPECT_NE(error({tensor(f32({2}), {1})}).find("argument 0"), std::string::npos);
}

TEST_F(InterpreterTest, RefusesAnIdOutsideTheTable) {
  auto ids = RankedTensorType::get({3}, IntegerType::get(context_.get(), 32));
  auto build = [](TapeBuilder &t, ValueRange x) -> std::vector<Value> {
    return {t.builder().create<EmbeddingOp>(t.loc(), x[0], x[1])};
  };
  for (double id : {4.0, -1.0}) {
    std::string error = errorOf([&] {
      run({f32({4, 1}), ids}, build, {tensor(f32({4, 1}), {1, 2, 3, 4}), tensor(ids, {0, 3, id})}, Precision::F32);
    });
    EXPECT_NE(error.find("at position 2 is outside the table of 4 rows"), std::string::npos) << error;
  }
}

TEST_F(InterpreterTest, RefusesDropoutWithoutAKey) {
  auto build = [](TapeBuilder &t, ValueRange x) -> std::vector<Value> {
    return {t.builder().create<DropoutOp>(t.loc(), x[0], Value(), Value(), APFloat(0.5), 0)};
  };
  std::string error = errorOf([&] { run({f32({1})}, build, {tensor(f32({1}), {1})}, Precision::F32); });
  EXPECT_NE(error.find("has no key"), std::string::npos) << error;
}

TEST_F(InterpreterTest, RefusesAForeignOp) {
  auto build = [&](TapeBuilder &t, ValueRange x) -> std::vector<Value> {
    return {t.builder().create<UnrealizedConversionCastOp>(t.loc(), TypeRange{f32({1})}, x).getResult(0)};
  };
  std::string error = errorOf([&] { run({f32({1})}, build, {tensor(f32({1}), {1})}, Precision::F32); });
  EXPECT_NE(error.find("cannot be computed by the reference interpreter"), std::string::npos) << error;
}

TEST_F(InterpreterTest, DecompositionKeepsPhaseAndLocation) {
  TestModule test =
      makeFunction(*context_, {f32({3, 4}), f32({4})}, [](TapeBuilder &t, ValueRange x) -> std::vector<Value> {
        auto norm = t.builder().create<LayerNormOp>(t.loc(), x[0], x[1], x[1], APFloat(1e-5));
        norm->setAttr(kPhaseAttr, t.builder().getStringAttr("loss"));
        return {norm.getResult()};
      });
  ASSERT_TRUE(succeeded(decomposeOps(*test.module)));
  ASSERT_TRUE(succeeded(test.module->verify()));
  size_t count = 0;
  for (Operation &op : test.function.getBody().front().without_terminator()) {
    ++count;
    EXPECT_FALSE(isa<LayerNormOp>(op));
    EXPECT_FALSE(op.use_empty());
    EXPECT_EQ(layerName(op.getLoc()), "layer.under.test");
    auto phase = op.getAttrOfType<StringAttr>(kPhaseAttr);
    EXPECT_TRUE(phase && phase == "loss") << op.getName().getStringRef().str();
  }
  EXPECT_GT(count, 10u);
}
} // namespace

} // namespace tapeout::ops
