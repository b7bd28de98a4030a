#include "codegen/reference/Interpreter.h"

#include "ir/tape/Decompose.h"
#include "ir/tape/Fusion.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/IR/AttrTypeSubElements.h"

using namespace mlir;

namespace tapeout::codegen::reference {

namespace {
constexpr uint64_t kMaxElements = uint64_t{1} << 31;

// Makes every floating-point type of the function f64.
void widen(func::FuncOp function) {
  AttrTypeReplacer replacer;
  replacer.addReplacement([](FloatType type) -> Type { return Float64Type::get(type.getContext()); });
  // Numbers stay as they are: those of ops are f64 already.
  replacer.addReplacement(
      [](FloatAttr number) { return std::pair<Attribute, WalkResult>(number, WalkResult::skip()); });
  replacer.recursivelyReplaceElementsIn(function, /*replaceAttrs=*/true, /*replaceLocs=*/false, /*replaceTypes=*/true);
}

LogicalResult checkRandomKeys(func::FuncOp function) {
  auto result = function.walk([](tape::StochasticOpInterface op) {
    if (!op.isStochastic() || op.hasRandomKey())
      return WalkResult::advance();
    op.emitOpError("draws random numbers but has no key yet, so it cannot be run");
    return WalkResult::interrupt();
  });
  return failure(result.wasInterrupted());
}

bool hasType(const Tensor &tensor, Type type) {
  auto expected = cast<RankedTensorType>(type);
  return tensor.elementType == expected.getElementType() && ArrayRef(tensor.shape) == expected.getShape() &&
         tensor.values.size() == tape::elementCount(type);
}
} // namespace

FailureOr<Interpreter> Interpreter::create(func::FuncOp function, Precision precision) {
  function.getContext()->loadDialect<arith::ArithDialect, math::MathDialect>();
  if (!function.getBody().hasOneBlock())
    return FailureOr<Interpreter>(function.emitError("the reference interpreter needs a function of one block"));
  if (failed(checkRandomKeys(function)))
    return failure();

  Interpreter interpreter;
  interpreter.type_ = function.getFunctionType();
  interpreter.function_ = function.clone();
  if (precision == Precision::F64)
    widen(*interpreter.function_);
  if (failed(tape::decomposeOps(*interpreter.function_)))
    return failure();
  Block &body = interpreter.function_->getBody().front();
  for (BlockArgument argument : body.getArguments())
    interpreter.slots_[argument] = interpreter.slotCount_++;
  if (failed(interpreter.prepareBlock(body)))
    return failure();
  for (Value result : body.getTerminator()->getOperands())
    interpreter.results_.push_back(interpreter.slots_.lookup(result));
  interpreter.findLastUses();
  return interpreter;
}

LogicalResult Interpreter::prepareBlock(Block &block) {
  for (Operation &op : block.without_terminator()) {
    auto fusion = dyn_cast<tape::FusionOp>(op);
    if (!fusion) {
      if (failed(prepareOp(&op)))
        return failure();
      continue;
    }
    // A fusion is its ops.
    Block &body = fusion.getBody().front();
    for (auto [argument, operand] : llvm::zip_equal(body.getArguments(), fusion.getOperands()))
      slots_[argument] = slots_.lookup(operand);
    if (failed(prepareBlock(body)))
      return failure();
    for (auto [result, value] : llvm::zip_equal(fusion.getResults(), body.getTerminator()->getOperands()))
      slots_[result] = slots_.lookup(value);
  }
  return success();
}

LogicalResult Interpreter::prepareOp(Operation *op) {
  Step step;
  for (Value result : op->getResults()) {
    if (!isa<RankedTensorType>(result.getType()) || tape::elementCount(result.getType()) > kMaxElements)
      return op->emitOpError("result ") << result.getType() << " is no tensor that the reference interpreter can hold";
    step.outputSizes.push_back(tape::elementCount(result.getType()));
  }
  FailureOr<Evaluator> evaluator = evaluatorOf(op);
  if (failed(evaluator))
    return failure();
  step.evaluate = std::move(*evaluator);
  for (Value operand : op->getOperands())
    step.inputs.push_back(slots_.lookup(operand));
  for (Value result : op->getResults())
    step.outputs.push_back(slots_[result] = slotCount_++);
  steps_.push_back(std::move(step));
  return success();
}

// A slot is freed after the last step that touches it, unless it is a result of the function.
void Interpreter::findLastUses() {
  std::vector<bool> seen(slotCount_, false);
  for (unsigned slot : results_)
    seen[slot] = true;
  for (Step &step : llvm::reverse(steps_))
    for (const std::vector<unsigned> *touched : {&step.inputs, &step.outputs})
      for (unsigned slot : *touched)
        if (!seen[slot]) {
          seen[slot] = true;
          step.lastUses.push_back(slot);
        }
}

FailureOr<std::vector<Tensor>> Interpreter::run(ArrayRef<Tensor> arguments) const {
  auto fail = [&](const Twine &message) -> FailureOr<std::vector<Tensor>> {
    func::FuncOp function = function_.get();
    return function.emitError(message);
  };
  if (arguments.size() != type_.getNumInputs())
    return fail("the function takes " + Twine(type_.getNumInputs()) + " arguments, not " + Twine(arguments.size()));
  Block &body = function_.get().getBody().front();
  std::vector<Values> slots(slotCount_);
  for (auto [i, argument] : llvm::enumerate(arguments)) {
    if (!hasType(argument, type_.getInput(i)))
      return fail("argument " + Twine(i) + " has not the type or the number of elements that the function takes");
    slots[i] = argument.values;
    roundTo(tape::elementOf(body.getArgument(i)), slots[i]);
  }
  for (const Step &step : steps_) {
    SmallVector<const Values *> inputs;
    SmallVector<Values *> outputs;
    for (unsigned slot : step.inputs)
      inputs.push_back(&slots[slot]);
    for (auto [slot, size] : llvm::zip_equal(step.outputs, step.outputSizes)) {
      slots[slot].assign(size, 0.0);
      outputs.push_back(&slots[slot]);
    }
    if (failed(step.evaluate(inputs, outputs)))
      return failure();
    for (unsigned slot : step.lastUses)
      slots[slot] = Values();
  }
  std::vector<Tensor> results;
  for (auto [type, slot] : llvm::zip_equal(type_.getResults(), results_)) {
    auto tensor = cast<RankedTensorType>(type);
    results.push_back({tensor.getElementType(), tensor.getShape().vec(), slots[slot]});
  }
  return results;
}

} // namespace tapeout::codegen::reference
