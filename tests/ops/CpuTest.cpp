// The kernels of the target cpu against the reference interpreter: every sample and some random graphs, one kernel per
// op.
#include "codegen/cpu/CpuCodegen.h"
#include "codegen/reference/Evaluators.h"
#include "ir/plan/Plan.h"
#include "ir/tape/Decompose.h"
#include "ir/tape/Fusion.h"
#include "ir/tape/MatMul.h"
#include "runtime/device/cpu/KernelLibrary.h"
#include "tests/ops/RandomGraph.h"

#include "mlir/IR/IRMapping.h"
#include "llvm/ADT/SmallPtrSet.h"

#include "gtest/gtest.h"

#include <cstring>

using namespace mlir;
using tapeout::codegen::reference::Values;

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
  void write(const Values &values) {
    visit([&](auto *data) { std::copy(values.begin(), values.end(), data); });
  }
  Values read() const {
    Values values(count_);
    visit([&](auto *data) { std::copy_n(data, count_, values.begin()); });
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
    else
      f(static_cast<int64_t *>(memory_.get()));
  }

  struct Free {
    void operator()(void *memory) const { std::free(memory); }
  };
  Type element_;
  uint64_t count_;
  std::unique_ptr<void, Free> memory_;
};

bool isSupported(func::FuncOp function) {
  auto result = function.walk([](Operation *op) {
    auto isNarrow = [](Type type) {
      auto tensor = dyn_cast<RankedTensorType>(type);
      return tensor && (tensor.getElementType().isBF16() || tensor.getElementType().isF16());
    };
    bool narrow = llvm::any_of(op->getOperandTypes(), isNarrow) || llvm::any_of(op->getResultTypes(), isNarrow);
    return narrow ? WalkResult::interrupt() : WalkResult::advance();
  });
  return !result.wasInterrupted();
}

struct Case {
  std::string name;
  TestModule test;
  std::vector<Tensor> arguments;
  std::vector<Tensor> expected;
  std::vector<std::pair<Operation *, size_t>> steps; // op, number of its kernel; products have none
};

class CpuTest : public testing::Test {
protected:
  static constexpr size_t kNoKernel = SIZE_MAX;

  void SetUp() override {
    context_->loadDialect<plan::PlanDialect>();
    plan_ = ModuleOp::create(UnknownLoc::get(context_.get()));
  }

  void addCase(std::string name, TestModule test, std::vector<Tensor> arguments) {
    if (!isSupported(test.function))
      return;
    Case added{name, std::move(test), std::move(arguments), {}, {}};
    added.expected = interpret(added.test.function, added.arguments, Precision::F32);
    ASSERT_FALSE(added.expected.empty()) << name;
    ASSERT_TRUE(succeeded(tape::decomposeOps(*added.test.module)));
    for (Operation &op : added.test.function.getBody().front().without_terminator())
      added.steps.push_back({&op, isa<tape::DotGeneralOp>(op) ? kNoKernel : addKernel(&op)});
    cases_.push_back(std::move(added));
  }

  // A kernel that holds the op.
  size_t addKernel(Operation *op) {
    OpBuilder b(context_.get());
    b.setInsertionPointToEnd(plan_->getBody());
    auto kernel = b.create<plan::KernelOp>(op->getLoc(), "k" + std::to_string(kernelCount_));
    Block *body = b.createBlock(&kernel.getBody());
    IRMapping mapping;
    for (Value operand : op->getOperands())
      if (!mapping.contains(operand))
        mapping.map(operand, body->addArgument(operand.getType(), op->getLoc()));
    b.setInsertionPointToEnd(body);
    SmallVector<Value> results;
    if (auto fusion = dyn_cast<tape::FusionOp>(op)) {
      Block &inner = fusion.getBody().front();
      for (auto [argument, operand] : llvm::zip(inner.getArguments(), op->getOperands()))
        mapping.map(argument, mapping.lookup(operand));
      for (Operation &part : inner.without_terminator())
        b.clone(part, mapping);
      for (Value value : inner.getTerminator()->getOperands())
        results.push_back(mapping.lookup(value));
    } else {
      llvm::append_range(results, b.clone(*op, mapping)->getResults());
    }
    b.create<tape::YieldOp>(op->getLoc(), results);
    return kernelCount_++;
  }

  void compile() {
    ASSERT_TRUE(succeeded(plan_->verify()));
    auto compiled = codegen::compileCpuKernels(*plan_);
    ASSERT_TRUE(succeeded(compiled));
    module_ = std::move(*compiled);
    auto bytes = reinterpret_cast<const uint8_t *>(module_.sharedObject.data());
    auto library = rt::KernelLibrary::load({bytes, module_.sharedObject.size()});
    ASSERT_TRUE(library.isOk());
    library_ = std::move(*library);
  }

  void launch(size_t kernel, Operation *op, const llvm::DenseMap<Value, Values> &values,
              MutableArrayRef<Values> results) {
    std::vector<Buffer> buffers;
    llvm::SmallPtrSet<void *, 8> seen;
    for (Value operand : op->getOperands())
      if (seen.insert(operand.getAsOpaquePointer()).second)
        buffers.emplace_back(operand.getType()).write(values.at(operand));
    size_t operands = buffers.size();
    for (Type type : op->getResultTypes())
      buffers.emplace_back(type);
    std::vector<void *> addresses;
    for (const Buffer &buffer : buffers)
      addresses.push_back(buffer.data());
    auto function = library_->resolve(module_.kernels[kernel].symbol, rt::CpuIsa::Avx2);
    ASSERT_TRUE(function.isOk());
    ASSERT_EQ(module_.kernels[kernel].argumentCount, addresses.size());
    (*function)(addresses.data(), 0, module_.kernels[kernel].units);
    for (size_t i = 0; i < results.size(); ++i)
      results[i] = buffers[operands + i].read();
  }

  // Runs the case op by op and compares its results.
  void check(const Case &tested, double tolerance) {
    SCOPED_TRACE(tested.name);
    llvm::DenseMap<Value, Values> values;
    Block &body = tested.test.module.get().getBody()->front().getRegion(0).front();
    for (auto [argument, tensor] : llvm::zip(body.getArguments(), tested.arguments))
      values[argument] = tensor.values;
    for (auto [op, kernel] : tested.steps) {
      std::vector<Values> results(op->getNumResults());
      if (kernel == kNoKernel) {
        auto evaluate = codegen::reference::evaluatorOf(op);
        results[0].resize(tape::elementCount(op->getResult(0).getType()));
        ASSERT_TRUE(succeeded((*evaluate)({&values[op->getOperand(0)], &values[op->getOperand(1)]}, {&results[0]})));
      } else {
        launch(kernel, op, values, results);
      }
      for (auto [result, computed] : llvm::zip(op->getResults(), results))
        values[result] = computed;
    }
    for (auto [i, value] : llvm::enumerate(body.getTerminator()->getOperands()))
      expectClose(values[value], tested.expected[i].values, tolerance, "result " + std::to_string(i));
  }

  std::unique_ptr<MLIRContext> context_ = makeContext();
  OwningOpRef<ModuleOp> plan_;
  size_t kernelCount_ = 0;
  std::vector<Case> cases_;
  codegen::CpuModule module_;
  std::unique_ptr<rt::KernelLibrary> library_;
};

TEST_F(CpuTest, SamplesMatchTheReference) {
  for (const auto &[i, sample] : llvm::enumerate(allSamples()))
    addCase(sample.name, makeFunction(*context_, sample), makeArguments(*context_, sample.inputs, i + 1));
  compile();
  if (HasFatalFailure())
    return;
  for (const Case &tested : cases_)
    check(tested, 1e-5);
}

TEST_F(CpuTest, RandomGraphsMatchTheReference) {
  for (uint64_t seed = 0; seed < 10; ++seed) {
    TestModule graph = makeRandomGraph(*context_, seed);
    std::vector<Tensor> arguments = makeRandomGraphArguments(graph.function, seed);
    addCase("seed " + std::to_string(seed), std::move(graph), arguments);
  }
  compile();
  if (HasFatalFailure())
    return;
  for (const Case &tested : cases_)
    check(tested, 1e-4);
}
} // namespace

} // namespace tapeout::ops
