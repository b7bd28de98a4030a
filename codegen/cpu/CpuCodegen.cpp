#include "codegen/cpu/CpuCodegen.h"

#include "codegen/cpu/BFloat16Expansion.h"
#include "codegen/cpu/LowerToLlvm.h"
#include "codegen/cpu/MathExpansion.h"
#include "codegen/cpu/Schedules.h"
#include "codegen/cpu/SharedObject.h"
#include "ir/tape/Reduction.h"
#include "ir/tape/Tape.h"

using namespace mlir;

namespace tapeout::codegen {
namespace {

// Modules that threads compile on their own; their number does not depend on the threads, nor do the bytes that come out.
constexpr unsigned kParts = 16;
constexpr int64_t kGrainElements = 16384; // work worth waking a thread for

FailureOr<WorkUnits> buildBody(KernelBuilder &kernel, const KernelFrame &frame, plan::KernelOp op) {
  if (op.getTensors() > 1)
    return buildMultiTensor(kernel, frame, op.getTensors());
  if (op.getColumns())
    return buildEpilogue(kernel, frame, *op.getColumns());
  tape::ReduceOp reduction;
  for (Operation &op : frame.region->without_terminator()) {
    if (cast<tape::FactsOpInterface>(op).getFusionKind() == tape::FusionKind::Opaque)
      return buildRowMovement(kernel, frame, &op);
    if (auto reduce = dyn_cast<tape::ReduceOp>(op))
      reduction = reduce;
  }
  auto countOf = [](Value value) { return tape::elementCount(value.getType()); };
  ValueRange results = frame.terminator()->getOperands();
  bool oneSize = llvm::all_of(results, [&](Value result) { return countOf(result) == countOf(results.front()); });
  if (!reduction && oneSize)
    return buildElementwise(kernel, frame);
  return !reduction || tape::reducesRows(reduction) ? buildRows(kernel, frame) : buildColumns(kernel, frame);
}

// Appends the kernel's function to `functions`.
FailureOr<CompiledKernel> buildKernel(plan::KernelOp kernel, ModuleOp functions) {
  if (kernel.getBody().front().getTerminator()->getNumOperands() == 0)
    return kernel.emitError("kernel '") << kernel.getSymName() << "' has no result";
  OpBuilder builder(kernel.getContext());
  builder.setInsertionPointToEnd(functions.getBody());
  Block *entry = createKernelFunction(builder, kernel.getLoc(), kernel.getSymName());
  builder.setInsertionPointToStart(entry);

  KernelBuilder words(builder, kernel.getLoc());
  KernelFrame frame{&kernel.getBody().front(), {}, {}, entry->getArgument(0), entry->getArgument(1), entry->getArgument(2)};
  unsigned arguments = frame.region->getNumArguments(), results = frame.terminator()->getNumOperands();
  for (unsigned i = 0; i < arguments + results; ++i)
    (i < arguments ? frame.operands : frame.results).push_back(words.loadPointer(frame.arguments, words.integer(i)));

  FailureOr<WorkUnits> units = buildBody(words, frame, kernel);
  if (failed(units))
    return failure();
  finishKernelFunction(builder, entry);
  expandBFloat16(entry->getParentOp());
  if (failed(expandMath(entry->getParentOp())))
    return failure();
  uint64_t grain = (kGrainElements + units->elements - 1) / units->elements;
  return CompiledKernel{kernel.getSymName().str(), static_cast<uint64_t>(units->count), grain, arguments + results,
                        results};
}

} // namespace

FailureOr<CpuModule> compileCpuKernels(ModuleOp planModule, const CpuOptions &options) {
  loadCodegenDialects(*planModule.getContext());
  CpuModule result;
  std::vector<OwningOpRef<ModuleOp>> parts(kParts);
  for (OwningOpRef<ModuleOp> &part : parts)
    part = ModuleOp::create(planModule.getLoc());

  for (plan::KernelOp kernel : planModule.getOps<plan::KernelOp>()) {
    FailureOr<CompiledKernel> compiled = buildKernel(kernel, *parts[result.kernels.size() % parts.size()]);
    if (failed(compiled))
      return failure();
    result.kernels.push_back(std::move(*compiled));
  }
  FailureOr<std::string> sharedObject = makeSharedObject(parts, options);
  if (failed(sharedObject))
    return failure();
  result.sharedObject = std::move(*sharedObject);
  return result;
}

} // namespace tapeout::codegen
