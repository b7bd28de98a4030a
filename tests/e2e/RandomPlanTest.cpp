// Random graphs and their gradients, all the way: fused and unfused plans run by the executor give the same bits, and the
// values of the reference interpreter. Covers what only a plan has: products that read and write in place, epilogues,
// results over dead operands, updates of arguments, memory that is reused.
#include "codegen/PlanWriter.h"
#include "codegen/cpu/CpuCodegen.h"
#include "ir/plan/Plan.h"
#include "ir/tape/Shape.h"
#include "passes/Passes.h"
#include "runtime/device/cpu/CpuExecutor.h"
#include "runtime/plan_generated.h"
#include "tests/ops/RandomGraph.h"

#include "runtime/base/Hyperparameters.h"

#include "mlir/Pass/PassManager.h"
#include "mlir/Transforms/Passes.h"
#include "gtest/gtest.h"

#include <cstring>

using namespace mlir;
using namespace tapeout::tape;

namespace tapeout {

namespace {
using ops::Tensor;

/// Forward for even seeds, gradients for odd ones.
ops::TestModule makeGraph(MLIRContext &context, uint64_t seed) {
  ops::TestModule graph = ops::makeRandomGraph(context, seed);
  if (seed % 2 == 0)
    return graph;
  return ops::makeGradientFunction(graph.function,
                                   llvm::to_vector(llvm::seq<unsigned>(0, graph.function.getNumResults())));
}

/// Makes the function a program whose arguments are inputs of its own; every third function updates what it can: results
/// of an argument's type become its new values, in reverse order, so that some swap.
void makeProgram(func::FuncOp function, const std::string &name, uint64_t seed) {
  OpBuilder b(function.getContext());
  function.setName(name);
  auto results = function.getBody().front().getTerminator()->getOperands();
  unsigned next = 1; // result 0 is a number
  for (unsigned i = 0; i < function.getNumArguments(); ++i) {
    function.setArgAttr(i, kNameAttr, b.getStringAttr(name + "/" + std::to_string(i)));
    unsigned result = next;
    while (result < results.size() && results[result].getType() != function.getArgumentTypes()[i])
      ++result;
    bool updated = seed % 3 == 0 && result < results.size();
    function.setArgAttr(i, kRoleAttr, b.getStringAttr(updated ? kRoleState : kRoleInput));
    if (updated) {
      function.setResultAttr(result, kUpdatesAttr, b.getI64IntegerAttr(i));
      next = result + 1;
    }
  }
}

/// A program that reads the config slot, which every plan has.
void addConfigProgram(ModuleOp module) {
  OpBuilder b = OpBuilder::atBlockEnd(module.getBody());
  Type config = RankedTensorType::get({int64_t(kConfigSlotLength)}, b.getF64Type());
  auto function = b.create<func::FuncOp>(module.getLoc(), "config", b.getFunctionType(config, {}));
  function.setArgAttr(0, kRoleAttr, b.getStringAttr(kRoleConfig));
  function.setArgAttr(0, kNameAttr, b.getStringAttr("config"));
  b.setInsertionPointToEnd(function.addEntryBlock());
  Value number = b.create<HyperparameterOp>(module.getLoc(), function.getArgument(0), 0);
  b.create<func::ReturnOp>(module.getLoc(), number);
  function.setFunctionType(b.getFunctionType(config, number.getType()));
}

bool lower(ModuleOp module, bool fused) {
  PassManager manager(module.getContext(), ModuleOp::getOperationName());
  manager.addPass(createDecompose());
  manager.addPass(createCanonicalizerPass());
  FormFusionGroupsOptions options;
  options.merge = fused;
  manager.addPass(createFormFusionGroups(options));
  if (fused) {
    manager.addPass(createFuseEpilogues());
    manager.addPass(createFuseMultiTensor());
  }
  manager.addPass(createVerifyFusionGroups());
  manager.addPass(createLowerToPlan());
  manager.addPass(createPlanMemory());
  manager.addPass(createVerifyPlan());
  return succeeded(manager.run(module));
}

template <typename Visit> void visitType(ElementType element, void *data, Visit visit) {
  switch (element) {
  case ElementType::F32: return visit(static_cast<float *>(data));
  case ElementType::F64: return visit(static_cast<double *>(data));
  case ElementType::I1: return visit(static_cast<uint8_t *>(data));
  case ElementType::I32: return visit(static_cast<int32_t *>(data));
  case ElementType::I64: return visit(static_cast<int64_t *>(data));
  default: FAIL() << "a type that the target cpu does not have";
  }
}

/// The programs of one module, compiled.
class Machine {
public:
  Machine(ModuleOp module, bool fused) { prepare(module, fused); }

  /// The values of the slots `places` after a run of the program.
  std::vector<std::vector<double>> run(const std::string &name, ArrayRef<Tensor> arguments, ArrayRef<std::string> places) {
    const plan::Program *program = plan_->program(name);
    for (auto [i, argument] : llvm::enumerate(arguments))
      if (std::optional<uint32_t> slot = slotNamed(name + "/" + std::to_string(i))) // none: nothing reads the argument
        visitSlot(*slot, [&](auto *data, size_t) { std::copy(argument.values.begin(), argument.values.end(), data); });
    EXPECT_TRUE(executor_->run(*program).isOk());
    std::vector<std::vector<double>> results;
    for (const std::string &place : places)
      if (std::optional<uint32_t> slot = slotNamed(place))
        visitSlot(*slot, [&](auto *data, size_t count) { results.emplace_back(data, data + count); });
      else // an argument that stays as it is and nothing reads
        results.push_back(arguments[std::stoi(place.substr(name.size() + 1))].values);
    return results;
  }

private:
  void prepare(ModuleOp module, bool fused) {
    EXPECT_TRUE(lower(module, fused));
    auto compiled = codegen::compileCpuKernels(module, {.threads = 2, .dumpDirectory = ""});
    ASSERT_TRUE(succeeded(compiled));
    kernels_ = compiled->sharedObject;
    std::vector<codegen::KernelRecord> records;
    for (const codegen::CompiledKernel &kernel : compiled->kernels)
      records.push_back({kernel.symbol, kernel.units, kernel.grain});
    codegen::PlanInfo info;
    info.modelName = "random";
    info.task = static_cast<uint8_t>(plan::Task::Regression);
    info.target = "cpu";
    info.optimizer = "sgd";
    auto bytes = codegen::writePlan(module, records, info);
    ASSERT_TRUE(succeeded(bytes));
    bytes_ = *bytes;
    auto spanOf = [](const std::string &text) {
      return std::span<const uint8_t>(reinterpret_cast<const uint8_t *>(text.data()), text.size());
    };
    Result<rt::Plan> plan = rt::Plan::load(spanOf(bytes_));
    ASSERT_TRUE(plan.isOk()) << plan.status().message();
    plan_.emplace(std::move(*plan));
    auto executor = rt::CpuExecutor::create(*plan_, spanOf(kernels_), {.threads = 2, .checkMemory = true});
    ASSERT_TRUE(executor.isOk()) << executor.status().message();
    executor_ = std::move(*executor);
  }

  std::optional<uint32_t> slotNamed(const std::string &name) const {
    for (uint32_t slot = 0; slot < plan_->slotCount(); ++slot)
      if (plan_->slot(slot).kind() != plan::SlotKind::Arena && plan_->slot(slot).name()->str() == name)
        return slot;
    return std::nullopt;
  }

  template <typename Visit> void visitSlot(uint32_t slot, Visit visit) {
    size_t count = rt::elementCount(plan_->slot(slot));
    visitType(rt::elementType(plan_->slot(slot)), executor_->address(slot), [&](auto *data) { visit(data, count); });
  }

  std::string bytes_, kernels_;
  std::optional<rt::Plan> plan_;
  std::unique_ptr<rt::CpuExecutor> executor_;
};

/// Compares `count` graphs from seed `first` on, compiled together.
void compare(uint64_t first, uint64_t count) {
  auto context = ops::makeContext();
  context->loadDialect<plan::PlanDialect>();
  std::vector<ops::TestModule> graphs;
  OwningOpRef<ModuleOp> modules[2];
  for (OwningOpRef<ModuleOp> &module : modules)
    addConfigProgram(*(module = ModuleOp::create(UnknownLoc::get(context.get()))));
  for (uint64_t seed = first; seed < first + count; ++seed) {
    graphs.push_back(makeGraph(*context, seed));
    for (OwningOpRef<ModuleOp> &module : modules) {
      auto copy = cast<func::FuncOp>(graphs.back().function->clone());
      module->push_back(copy);
      makeProgram(copy, "seed" + std::to_string(seed), seed);
    }
  }
  std::vector<std::vector<std::string>> places; // of each function's results
  for (auto function : modules[0]->getOps<func::FuncOp>()) {
    std::vector<std::string> &own = places.emplace_back();
    for (unsigned r = 0; r < function.getNumResults(); ++r) {
      auto updates = dyn_cast_or_null<IntegerAttr>(function.getResultAttr(r, kUpdatesAttr));
      own.push_back(function.getName().str() + (updates ? "/" + std::to_string(updates.getInt()) : "/result" + std::to_string(r)));
    }
  }
  Machine fused(*modules[0], true), single(*modules[1], false);
  if (testing::Test::HasFatalFailure())
    return;
  for (uint64_t i = 0; i < count; ++i) {
    std::string name = "seed" + std::to_string(first + i);
    SCOPED_TRACE(name);
    std::vector<Tensor> arguments = ops::makeRandomGraphArguments(graphs[i].function, first + i);
    std::vector<Tensor> expected = ops::interpret(graphs[i].function, arguments, ops::Precision::F32);
    const std::vector<std::string> &own = places[i + 1]; // the first function reads the config
    auto a = fused.run(name, arguments, own), b = single.run(name, arguments, own);
    ASSERT_EQ(a.size(), expected.size());
    ASSERT_EQ(b.size(), expected.size());
    for (size_t r = 0; r < a.size(); ++r) {
      ops::expectClose(a[r], b[r], 0, "fused and unfused, result " + std::to_string(r));
      ops::expectClose(a[r], expected[r].values, 1e-4, "result " + std::to_string(r));
    }
  }
}

class RandomPlanTest : public testing::TestWithParam<uint64_t> {};

TEST_P(RandomPlanTest, FusedAndUnfusedPlansGiveTheSameBits) { compare(GetParam() * 50, 50); }
INSTANTIATE_TEST_SUITE_P(All, RandomPlanTest, testing::Range<uint64_t>(0, 10));

// For the long tier: --gtest_also_run_disabled_tests, and GTEST_TOTAL_SHARDS and GTEST_SHARD_INDEX for several processes.
INSTANTIATE_TEST_SUITE_P(DISABLED_TwentyThousand, RandomPlanTest, testing::Range<uint64_t>(10, 400));
} // namespace

} // namespace tapeout
