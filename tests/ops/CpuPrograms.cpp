#include "tests/ops/CpuPrograms.h"

#include "ir/plan/Plan.h"
#include "ir/tape/Fusion.h"
#include "ir/tape/MatMul.h"
#include "ir/tape/Shape.h"
#include "runtime/base/BFloat16.h"

#include "mlir/IR/IRMapping.h"
#include "gtest/gtest.h"

#include <cstring>

using namespace mlir;

namespace tapeout::ops {

namespace {
// A tensor in memory as a kernel sees it.
class Buffer {
public:
  explicit Buffer(Type type)
      : element_(cast<RankedTensorType>(type).getElementType()), count_(tape::elementCount(type)) {
    size_t bytes = (count_ * tape::elementBytes(element_) + 63) / 64 * 64;
    memory_.reset(std::aligned_alloc(64, bytes));
    std::memset(memory_.get(), 0xEE, bytes);
  }
  void *data() const { return memory_.get(); }
  size_t bytes() const { return count_ * tape::elementBytes(element_); }
  void write(const Values &values) {
    visit([&](auto *data) { std::copy(values.begin(), values.end(), data); });
    auto *bits = static_cast<uint16_t *>(memory_.get());
    if (element_.isBF16())
      std::transform(values.begin(), values.end(), bits, doubleToBfloat16);
    if (element_.isF16())
      std::transform(values.begin(), values.end(), bits, doubleToHalf);
  }
  Values read() const {
    Values values(count_);
    visit([&](auto *data) { std::copy_n(data, count_, values.begin()); });
    const auto *bits = static_cast<const uint16_t *>(memory_.get());
    if (element_.isBF16())
      std::transform(bits, bits + count_, values.begin(), bfloat16ToFloat);
    if (element_.isF16())
      std::transform(bits, bits + count_, values.begin(), halfToFloat);
    return values;
  }

private:
  template <typename F> void visit(F f) const {
    if (element_.isF32())
      f(static_cast<float *>(memory_.get()));
    else if (element_.isF64())
      f(static_cast<double *>(memory_.get()));
    else if (element_.isInteger(1))
      f(static_cast<uint8_t *>(memory_.get()));
    else if (element_.isInteger(32))
      f(static_cast<int32_t *>(memory_.get()));
    else if (element_.isInteger(64))
      f(static_cast<int64_t *>(memory_.get()));
  }

  struct Free {
    void operator()(void *memory) const { std::free(memory); }
  };
  Type element_;
  uint64_t count_;
  std::unique_ptr<void, Free> memory_;
};
} // namespace

CpuPrograms::CpuPrograms(MLIRContext &context) : context_(context) {
  context.loadDialect<plan::PlanDialect>();
  plan_ = ModuleOp::create(UnknownLoc::get(&context));
}

size_t CpuPrograms::add(func::FuncOp function) {
  std::vector<Step> steps;
  for (Operation &op : function.getBody().front().without_terminator())
    steps.push_back({&op, isa<tape::ReshapeOp>(op) || tape::isLibraryCall(&op) ? kNoKernel : addKernel(&op)});
  programs_.push_back({function, std::move(steps)});
  return programs_.size() - 1;
}

size_t CpuPrograms::addKernel(Operation *op) {
  OpBuilder b(&context_);
  b.setInsertionPointToEnd(plan_->getBody());
  auto fusion = dyn_cast<tape::FusionOp>(op);
  auto kernel = b.create<plan::KernelOp>(op->getLoc(), "k", fusion ? fusion.getTensors() : 1, IntegerAttr());
  Block *body = b.createBlock(&kernel.getBody());
  IRMapping mapping;
  for (auto [i, operand] : llvm::enumerate(op->getOperands()))
    mapping.map(fusion ? fusion.getBody().getArgument(i) : operand, body->addArgument(operand.getType(), op->getLoc()));
  b.setInsertionPointToEnd(body);
  SmallVector<Value> results;
  if (fusion) {
    for (Operation &part : fusion.getBody().front().without_terminator())
      b.clone(part, mapping);
    for (Value value : fusion.getBody().front().getTerminator()->getOperands())
      results.push_back(mapping.lookup(value));
  } else {
    llvm::append_range(results, b.clone(*op, mapping)->getResults());
  }
  b.create<tape::YieldOp>(op->getLoc(), results);

  std::string text;
  llvm::raw_string_ostream(text) << kernel;
  auto [known, isNew] = kernels_.try_emplace(text, kernels_.size());
  if (isNew)
    kernel.setSymName("k" + std::to_string(known->second));
  else
    kernel.erase();
  return known->second;
}

bool CpuPrograms::compile() {
  if (failed(plan_->verify()))
    return false;
  compiled_ = ProgramKernels::compile(*plan_);
  return compiled_ != nullptr;
}

bool CpuPrograms::launch(const Step &step, const llvm::DenseMap<Value, Values> &values, std::vector<Values> &results) {
  std::vector<Buffer> buffers;
  for (Value operand : step.op->getOperands())
    buffers.emplace_back(operand.getType()).write(values.at(operand));
  for (Type type : step.op->getResultTypes())
    buffers.emplace_back(type);
  std::vector<void *> addresses;
  std::vector<size_t> sizes;
  for (const Buffer &buffer : buffers) {
    addresses.push_back(buffer.data());
    sizes.push_back(buffer.bytes());
  }
  if (!compiled_->run(step.kernel, addresses, sizes))
    return false;
  for (size_t i = 0; i < results.size(); ++i)
    results[i] = buffers[step.op->getNumOperands() + i].read();
  return true;
}

std::vector<Values> CpuPrograms::run(size_t program, ArrayRef<Tensor> arguments) {
  auto &[function, steps] = programs_[program];
  llvm::DenseMap<Value, Values> values;
  for (auto [argument, tensor] : llvm::zip(function.getArguments(), arguments))
    codegen::reference::roundTo(tensor.elementType, values[argument] = tensor.values);
  for (const Step &step : steps) {
    std::vector<Values> results(step.op->getNumResults());
    bool done = true;
    if (isa<tape::ReshapeOp>(step.op)) {
      results[0] = values.at(step.op->getOperand(0));
    } else if (step.kernel == kNoKernel) {
      auto evaluate = codegen::reference::evaluatorOf(step.op);
      SmallVector<const Values *> inputs;
      SmallVector<Values *> outputs;
      for (Value operand : step.op->getOperands())
        inputs.push_back(&values.find(operand)->second);
      for (auto [result, type] : llvm::zip(results, step.op->getResultTypes())) {
        result.resize(tape::elementCount(type));
        outputs.push_back(&result);
      }
      done = succeeded(evaluate) && succeeded((*evaluate)(inputs, outputs));
    } else {
      done = launch(step, values, results);
    }
    if (!done) {
      ADD_FAILURE() << "cannot run " << step.op->getName().getStringRef().str();
      return {};
    }
    for (auto [result, computed] : llvm::zip(step.op->getResults(), results))
      values[result] = computed;
  }
  std::vector<Values> results;
  for (Value value : function.getBody().front().getTerminator()->getOperands())
    results.push_back(values.at(value));
  return results;
}

} // namespace tapeout::ops
