#include "codegen/kernel/Schedule.h"

#include "ir/tape/Reduction.h"
#include "ir/tape/Tape.h"

using namespace mlir;

namespace tapeout::codegen {

Operation *movementOf(Block *region) {
  for (Operation &op : region->without_terminator())
    if (cast<tape::FactsOpInterface>(op).getFusionKind() == tape::FusionKind::Opaque)
      return &op;
  return nullptr;
}

Schedule scheduleOf(plan::KernelOp kernel) {
  Block *region = &kernel.getBody().front();
  if (tape::isHandWrittenKernel(&region->front()))
    return Schedule::HandWritten;
  if (kernel.getTensors() > 1)
    return isa<tape::ReduceOp>(region->front()) ? Schedule::PartSums : Schedule::MultiTensor;
  if (kernel.getColumns())
    return Schedule::Epilogue;
  if (movementOf(region))
    return Schedule::RowMovement;
  ValueRange results = region->getTerminator()->getOperands();
  auto reductions = region->getOps<tape::ReduceOp>();
  bool reducesRows = llvm::any_of(reductions, [](tape::ReduceOp reduce) { return tape::reducesRows(reduce); });
  auto isReduction = [](Value result) { return result.getDefiningOp<tape::ReduceOp>() != nullptr; };
  if (!reductions.empty()) // bands of rows are columns too, which a kernel of rows can reduce besides
    return !reducesRows && llvm::all_of(results, isReduction) ? Schedule::Columns : Schedule::Rows;
  auto countOf = [](Value value) { return tape::elementCount(value.getType()); };
  bool oneSize = llvm::all_of(results, [&](Value result) { return countOf(result) == countOf(results.front()); });
  return oneSize ? Schedule::Elementwise : Schedule::Rows;
}

SmallVector<TensorBody> tensorBodies(Block *region, int64_t tensors) {
  SmallVector<TensorBody> bodies(tensors);
  int64_t opCount = (region->getOperations().size() - 1) / tensors, number = 0;
  for (Operation &op : region->without_terminator()) {
    TensorBody &body = bodies[number++ / opCount];
    body.ops.push_back(&op);
    for (Value operand : op.getOperands())
      if (auto argument = dyn_cast<BlockArgument>(operand))
        body.arguments.push_back(argument);
  }
  auto results = region->getTerminator()->getOperands();
  for (auto [i, result] : llvm::enumerate(results))
    bodies[i / (results.size() / tensors)].results.push_back(result);
  return bodies;
}

} // namespace tapeout::codegen
