#include "codegen/cuda/KernelFunctions.h"

#include "codegen/cuda/ApproximateMath.h"
#include "codegen/cuda/Schedules.h"
#include "codegen/kernel/LowerToLlvm.h"
#include "codegen/kernel/MathExpansion.h"
#include "codegen/kernel/Schedule.h"
#include "ir/tape/Reduction.h"
#include "ir/tape/Tape.h"

#include "mlir/Dialect/LLVMIR/LLVMDialect.h"

#include <limits>
#include <map>
#include <set>

using namespace mlir;

namespace tapeout::codegen {
namespace {

constexpr unsigned kMostArguments = 500; // of a launch: 4 KB of parameters

/// For each kernel, the arguments that some launch gives the buffer of another, which it may write.
class SharedBuffers {
public:
  explicit SharedBuffers(ModuleOp planModule) {
    planModule.walk([&](plan::LaunchOp launch) { // arguments: reads, then writes
      add(launch.getKernel(), SmallVector<Value>(launch->getOperands()), launch.getReads().size());
    });
    planModule.walk([&](plan::MatmulOp matmul) { // of the epilogue: c, what else it reads, writes
      if (auto epilogue = matmul.getEpilogue()) {
        SmallVector<Value> slots{matmul.getWrites().front()};
        llvm::append_range(slots, matmul.getReads().drop_front(2));
        unsigned reads = slots.size();
        llvm::append_range(slots, matmul.getWrites());
        add(*epilogue, slots, reads);
      }
    });
  }
  bool contains(StringRef kernel, unsigned argument) const {
    auto found = arguments_.find(kernel.str());
    return found != arguments_.end() && found->second.count(argument);
  }

private:
  void add(StringRef kernel, ArrayRef<Value> slots, unsigned reads) {
    for (unsigned written = reads; written < slots.size(); ++written)
      for (unsigned other = 0; other < slots.size(); ++other)
        if (other != written && slots[other] == slots[written])
          arguments_[kernel.str()].insert({other, written});
  }

  std::map<std::string, std::set<unsigned>, std::less<>> arguments_;
};

FailureOr<LaunchShape> buildBody(CudaKernelBuilder &kernel, const CudaFrame &frame, plan::KernelOp op) {
  switch (scheduleOf(op)) {
  case Schedule::Elementwise:
    return buildElementwise(kernel, frame);
  case Schedule::Rows:
    return buildRows(kernel, frame);
  case Schedule::Columns:
    return buildColumns(kernel, frame);
  case Schedule::RowMovement:
    return buildRowMovement(kernel, frame, movementOf(frame.region));
  case Schedule::MultiTensor:
    return buildMultiTensor(kernel, frame, op.getTensors());
  case Schedule::PartSums:
    return buildPartSums(kernel, frame);
  case Schedule::HandWritten:
    llvm_unreachable("has its own way: codegen/cuda/HandWritten.h");
  case Schedule::Epilogue:
    return op.emitError("is the epilogue of a product, which the target cuda has not");
  }
  llvm_unreachable("every schedule is above");
}

/// Kernels that choose among their arguments while they run.
bool choosesArguments(plan::KernelOp op) {
  Operation *movement = movementOf(&op.getBody().front());
  return op.getTensors() > 1 || (movement && isa<tape::SumOfSquaresPartsOp>(movement));
}

/// Indices of 32 bits are several times faster, and enough for all but the largest tensors.
unsigned indexBits(Block &region) {
  uint64_t most = 0;
  for (Operation &op : region)
    for (TypeRange types : {TypeRange(op.getOperandTypes()), TypeRange(op.getResultTypes())})
      for (Type type : types)
        most = std::max(most, tape::elementCount(type));
  return most < uint64_t(std::numeric_limits<int32_t>::max()) / 2 ? 32 : 64;
}

FailureOr<CudaKernel> buildKernel(plan::KernelOp kernel, const SharedBuffers &shared, KernelFunctions &functions) {
  Block &region = kernel.getBody().front();
  unsigned operands = region.getNumArguments(), results = region.getTerminator()->getNumOperands();
  if (results == 0)
    return kernel.emitError("kernel '") << kernel.getSymName() << "' has no result";
  const bool chooses = choosesArguments(kernel), table = chooses || operands + results > kMostArguments;
  OpBuilder builder = OpBuilder::atBlockEnd(functions.module->getBody());
  SmallVector<Type> types(table ? 1 : operands + results, LLVM::LLVMPointerType::get(builder.getContext()));
  Block *entry = createKernelFunction(builder, kernel.getLoc(), kernel.getSymName(), types);
  auto function = cast<LLVM::LLVMFuncOp>(entry->getParentOp());
  for (unsigned i = 0; i < types.size(); ++i) {
    function.setArgAttr(i, LLVM::LLVMDialect::getAlignAttrName(), builder.getI64IntegerAttr(16));
    if (!table && shared.contains(kernel.getSymName(), i))
      continue;
    function.setArgAttr(i, LLVM::LLVMDialect::getNoAliasAttrName(), builder.getUnitAttr());
    if (i < operands || table)
      function.setArgAttr(i, LLVM::LLVMDialect::getReadonlyAttrName(), builder.getUnitAttr());
  }

  builder.setInsertionPointToStart(entry);
  CudaKernelBuilder words(builder, kernel.getLoc(), indexBits(region));
  CudaFrame frame{&region, {}, {}, table ? Value(entry->getArgument(0)) : Value()};
  for (unsigned i = 0; i < operands + results && !chooses; ++i)
    (i < operands ? frame.operands : frame.results)
        .push_back(table ? frame.pointerOf(words, words.integer(i)) : Value(entry->getArgument(i)));
  FailureOr<LaunchShape> shape = buildBody(words, frame, kernel);
  if (failed(shape))
    return failure();
  finishKernelFunction(builder, entry);
  if (mayApproximate(kernel))
    approximateMath(function);
  if (failed(expandMath(function, F64Functions::Expanded)))
    return failure();
  if (shape->blocks > std::numeric_limits<int32_t>::max())
    return kernel.emitError("needs ") << shape->blocks << " blocks, more than a GPU launches; use a smaller batch";
  functions.bounds.push_back({kernel.getSymName().str(), static_cast<unsigned>(shape->threads),
                              static_cast<unsigned>(shape->resident)});
  CudaKernel built;
  built.symbol = kernel.getSymName().str();
  built.blocks = shape->blocks;
  built.threads = shape->threads;
  built.sharedBytes = words.dynamicSharedBytes();
  built.argumentTable = table;
  built.argumentCount = operands + results;
  built.resultCount = results;
  return built;
}

} // namespace

FailureOr<std::vector<CudaKernel>> buildCudaFunctions(ModuleOp planModule, MutableArrayRef<KernelFunctions> parts) {
  SharedBuffers shared(planModule);
  std::vector<CudaKernel> kernels;
  for (plan::KernelOp kernel : planModule.getOps<plan::KernelOp>()) {
    if (scheduleOf(kernel) == Schedule::HandWritten)
      continue;
    uint32_t part = kernels.size() % parts.size();
    FailureOr<CudaKernel> built = buildKernel(kernel, shared, parts[part]);
    if (failed(built))
      return failure();
    built->module = part;
    kernels.push_back(std::move(*built));
  }
  return kernels;
}

} // namespace tapeout::codegen
