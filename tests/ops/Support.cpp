#include "tests/ops/Support.h"

#include "runtime/base/Philox.h"

#include "mlir/AsmParser/AsmParser.h"
#include "mlir/IR/IRMapping.h"
#include "gtest/gtest.h"

using namespace mlir;
using namespace tapeout::tape;

namespace tapeout::ops {

std::unique_ptr<MLIRContext> makeContext() {
  auto context = std::make_unique<MLIRContext>(MLIRContext::Threading::DISABLED);
  context->loadDialect<TapeDialect, func::FuncDialect>();
  return context;
}

TestModule makeFunction(MLIRContext &context, TypeRange arguments,
                        const std::function<std::vector<Value>(TapeBuilder &, ValueRange)> &build) {
  OpBuilder builder(&context);
  Location loc = NameLoc::get(builder.getStringAttr("layer.under.test"));
  TestModule result;
  result.module = ModuleOp::create(loc);
  builder.setInsertionPointToEnd(result.module->getBody());
  result.function = builder.create<func::FuncOp>(loc, "f", builder.getFunctionType(arguments, {}));
  Block *block = result.function.addEntryBlock();
  builder.setInsertionPointToEnd(block);
  TapeBuilder t(builder, loc);
  std::vector<Value> values = build(t, block->getArguments());
  builder.create<func::ReturnOp>(loc, values);
  result.function.setFunctionType(builder.getFunctionType(arguments, TypeRange(ValueRange(values))));
  return result;
}

static RankedTensorType typeOf(MLIRContext &context, const Input &input) {
  return RankedTensorType::get(input.shape, parseType(input.element, &context));
}

TestModule makeFunction(MLIRContext &context, const Sample &sample) {
  std::vector<Type> types;
  for (const Input &input : sample.inputs)
    types.push_back(typeOf(context, input));
  return makeFunction(context, types, [&](TapeBuilder &t, ValueRange arguments) {
    auto results = sample.build(t, arguments).getDefiningOp()->getResults();
    return std::vector<Value>(results.begin(), results.end());
  });
}

std::vector<Tensor> makeArguments(MLIRContext &context, const std::vector<Input> &inputs, uint64_t seed) {
  std::vector<Tensor> arguments;
  for (auto [n, input] : llvm::enumerate(inputs)) {
    RankedTensorType type = typeOf(context, input);
    Tensor tensor{type.getElementType(), input.shape, input.values};
    RandomStream random{seed, n};
    bool isFloat = isa<FloatType>(tensor.elementType);
    for (int64_t i = tensor.values.size(); i < type.getNumElements(); ++i)
      tensor.values.push_back(isFloat ? input.low + (input.high - input.low) * random.uniform(i)
                                      : input.low + std::floor((input.high - input.low + 1) * random.uniform(i)));
    arguments.push_back(std::move(tensor));
  }
  return arguments;
}

Tensor randomTensor(Type type, uint64_t seed) {
  auto tensor = cast<RankedTensorType>(type);
  Tensor result{tensor.getElementType(), tensor.getShape().vec(), {}};
  RandomStream random{seed, 1000};
  for (int64_t i = 0; i < tensor.getNumElements(); ++i)
    result.values.push_back(2 * random.uniform(i) - 1);
  return result;
}

std::vector<Tensor> interpret(func::FuncOp function, ArrayRef<Tensor> arguments, Precision precision) {
  auto interpreter = codegen::reference::Interpreter::create(function, precision);
  if (failed(interpreter))
    return {};
  auto results = interpreter->run(arguments);
  return succeeded(results) ? *results : std::vector<Tensor>();
}

std::map<void *, Value> accumulateGradients(TapeBuilder &t, Block &block, ArrayRef<std::pair<Value, Value>> seeds) {
  std::map<void *, Value> gradients;
  auto accumulate = [&](Value value, Value gradient) {
    Value &sum = gradients[value.getAsOpaquePointer()];
    sum = sum ? t.add(sum, gradient) : gradient;
  };
  std::vector<Operation *> forward;
  for (Operation &op : block)
    forward.push_back(&op);
  for (auto [value, gradient] : seeds)
    accumulate(value, gradient);
  for (Operation *op : llvm::reverse(forward)) {
    auto differentiable = dyn_cast<DifferentiableOpInterface>(op);
    SmallVector<Value> resultGradients, operandGradients;
    for (Value result : op->getResults())
      resultGradients.push_back(gradients.contains(result.getAsOpaquePointer()) ? gradients[result.getAsOpaquePointer()]
                                                                                : Value());
    if (!differentiable || llvm::none_of(resultGradients, [](Value value) { return bool(value); }))
      continue;
    differentiable.buildGradient(t.builder(), resultGradients, operandGradients);
    EXPECT_EQ(operandGradients.size(), op->getNumOperands()) << op->getName().getStringRef().str();
    for (auto [operand, gradient] : llvm::zip(op->getOperands(), operandGradients)) {
      if (!gradient)
        continue;
      EXPECT_TRUE(gradient.getType() == operand.getType()) << op->getName().getStringRef().str();
      accumulate(operand, gradient);
    }
  }
  return gradients;
}

TestModule makeGradientFunction(func::FuncOp function, ArrayRef<unsigned> outputs) {
  std::vector<Type> types(function.getArgumentTypes());
  for (unsigned output : outputs)
    types.push_back(function.getResultTypes()[output]);
  return makeFunction(*function.getContext(), types, [&](TapeBuilder &t, ValueRange arguments) {
    IRMapping mapping;
    mapping.map(function.getArguments(), arguments.take_front(function.getNumArguments()));
    for (Operation &op : function.getBody().front().without_terminator())
      t.builder().clone(op, mapping);
    std::vector<std::pair<Value, Value>> seeds;
    for (auto [i, output] : llvm::enumerate(outputs))
      seeds.push_back({mapping.lookup(function.getBody().front().getTerminator()->getOperand(output)),
                       arguments[function.getNumArguments() + i]});
    auto gradients = accumulateGradients(t, *t.builder().getInsertionBlock(), seeds);
    std::vector<Value> results;
    for (Value argument : arguments.take_front(function.getNumArguments())) {
      if (!isa<FloatType>(elementOf(argument)))
        continue;
      Value gradient = gradients[argument.getAsOpaquePointer()];
      results.push_back(gradient ? gradient : t.broadcast(t.constantLike(argument, 0), shapeOf(argument), {}));
    }
    return results;
  });
}

void checkGradients(func::FuncOp function, ArrayRef<Tensor> arguments, ArrayRef<unsigned> outputs, double tolerance,
                    size_t maxElements) {
  TestModule gradient = makeGradientFunction(function, outputs);
  ASSERT_TRUE(succeeded(gradient.module->verify()));
  std::vector<Tensor> withSeeds(arguments);
  for (unsigned output : outputs)
    withSeeds.push_back(randomTensor(function.getResultTypes()[output], 77 + output));
  std::vector<Tensor> analytic = interpret(gradient.function, withSeeds, Precision::F64);

  auto interpreter = codegen::reference::Interpreter::create(function, Precision::F64);
  ASSERT_TRUE(succeeded(interpreter));
  std::vector<Tensor> varied(arguments);
  auto value = [&] {
    auto results = interpreter->run(varied);
    double sum = 0;
    for (auto [i, output] : llvm::enumerate(outputs))
      for (auto [y, dy] : llvm::zip((*results)[output].values, withSeeds[arguments.size() + i].values))
        sum += y * dy;
    return sum;
  };
  size_t next = 0;
  for (auto [n, argument] : llvm::enumerate(arguments)) {
    if (!isa<FloatType>(argument.elementType))
      continue;
    ASSERT_LT(next, analytic.size());
    const std::vector<double> &gradients = analytic[next++].values;
    double scale = 1e-2;
    for (double element : gradients)
      scale = std::max(scale, std::fabs(element));
    size_t stride = std::max<size_t>(1, gradients.size() / maxElements);
    for (size_t i = 0; i < gradients.size(); i += stride) {
      double &element = varied[n].values[i], original = element, step = 1e-5 * std::max(1.0, std::fabs(original));
      element = original + step;
      double above = value();
      element = original - step;
      double below = value();
      element = original;
      double numeric = (above - below) / (2 * step);
      ASSERT_NEAR(gradients[i], numeric, tolerance * scale) << "argument " << n << ", element " << i;
    }
  }
}

void expectClose(ArrayRef<double> actual, ArrayRef<double> expected, double tolerance, const std::string &what) {
  ASSERT_EQ(actual.size(), expected.size()) << what;
  for (size_t i = 0; i < actual.size(); ++i) {
    if (std::isnan(expected[i])) {
      EXPECT_TRUE(std::isnan(actual[i])) << what << ", element " << i;
      continue;
    }
    if (actual[i] == expected[i]) // infinities
      continue;
    double scale = std::max({std::fabs(actual[i]), std::fabs(expected[i]), 1.0});
    ASSERT_LE(std::fabs(actual[i] - expected[i]), tolerance * scale)
        << what << ", element " << i << ": " << actual[i] << " instead of " << expected[i];
  }
}

} // namespace tapeout::ops
