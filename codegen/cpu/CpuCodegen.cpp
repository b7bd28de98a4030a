#include "codegen/cpu/CpuCodegen.h"

#include "codegen/cpu/BFloat16Expansion.h"
#include "codegen/kernel/LowerToLlvm.h"
#include "codegen/kernel/MathExpansion.h"
#include "codegen/cpu/Schedules.h"
#include "codegen/cpu/SharedObject.h"
#include "codegen/kernel/Schedule.h"
#include "ir/tape/Tape.h"

#include "mlir/Dialect/LLVMIR/LLVMDialect.h"

using namespace mlir;

namespace tapeout::codegen {
namespace {

// Modules that threads compile on their own; their number does not depend on the threads, nor do the bytes that come out.
constexpr unsigned kParts = 16;
constexpr int64_t kGrainElements = 16384; // work worth waking a thread for

FailureOr<WorkUnits> buildBody(KernelBuilder &kernel, const KernelFrame &frame, plan::KernelOp op) {
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
    return op.emitError("sums parts of many tensors, which kernels of the target cpu do not");
  case Schedule::HandWritten:
    return op.emitError("is written for GPUs only");
  case Schedule::Epilogue:
    return buildEpilogue(kernel, frame, *op.getColumns());
  }
  llvm_unreachable("every schedule is above");
}

// Appends the kernel's function to `functions`.
FailureOr<CompiledKernel> buildKernel(plan::KernelOp kernel, ModuleOp functions) {
  if (kernel.getBody().front().getTerminator()->getNumOperands() == 0)
    return kernel.emitError("kernel '") << kernel.getSymName() << "' has no result";
  OpBuilder builder(kernel.getContext());
  builder.setInsertionPointToEnd(functions.getBody());
  // The name of the first version from the start: a kernel called `exp` must not hide the function of the C library.
  Type pointer = LLVM::LLVMPointerType::get(builder.getContext()), i64 = builder.getI64Type();
  Block *entry = createKernelFunction(builder, kernel.getLoc(), (kernel.getSymName() + "_avx2").str(), {pointer, i64, i64});
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
