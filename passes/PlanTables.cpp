#include "passes/PlanTables.h"

#include "passes/Functions.h"

#include "ir/tape/Shape.h"

using namespace mlir;

namespace tapeout {

PlanTables::PlanTables(ModuleOp module) : builder_(module.getContext()), kernelBuilder_(module.getContext()) {
  builder_.setInsertionPointToStart(module.getBody()); // slots before the programs that use them
  kernelBuilder_.setInsertionPointToEnd(module.getBody());
}

Value PlanTables::createSlot(StringRef kind, StringRef name, Type type, Location loc) {
  if (name.empty())
    name = "value"; // a constant that folding has moved belongs to no layer
  return builder_.create<plan::SlotOp>(loc, plan::SlotType::get(builder_.getContext()), kind, name, type, IntegerAttr(),
                                       DenseI64ArrayAttr());
}

Value PlanTables::persistentSlot(func::FuncOp func, unsigned index) {
  StringRef role = argumentAttr(func, index, tape::kRoleAttr), name = argumentAttr(func, index, tape::kNameAttr);
  Type type = func.getArgumentTypes()[index];
  std::string key;
  llvm::raw_string_ostream(key) << role << '/' << name << ':' << type;
  Value &slot = persistent_[key];
  if (!slot) {
    slot = createSlot(role, name, type, func.getArgument(index).getLoc());
    for (StringRef attribute : {tape::kInitAttr, tape::kFrozenAttr, tape::kStatisticAttr})
      if (Attribute value = func.getArgAttr(index, attribute))
        slot.getDefiningOp()->setAttr(attribute, value);
  }
  return slot;
}

StringRef PlanTables::kernelFor(tape::FusionOp fusion, IntegerAttr columns) {
  Block &body = fusion.getBody().front();
  std::string label;
  for (Operation &op : body) {
    op.removeAttr(tape::kPhaseAttr);
    if (!isa<tape::ConstantOp, tape::YieldOp>(op))
      label += "_" + op.getName().stripDialect().str();
  }
  auto kernel = kernelBuilder_.create<plan::KernelOp>(fusion.getLoc(), "kernel", fusion.getTensors(), columns);
  kernel.getBody().takeBody(fusion.getBody());
  return name(kernel, label);
}

StringRef PlanTables::kernelFor(Operation &op, ArrayRef<int64_t> places) {
  auto kernel = kernelBuilder_.create<plan::KernelOp>(op.getLoc(), "kernel", /*tensors=*/1, IntegerAttr());
  SmallVector<Location> locations(op.getNumOperands(), op.getLoc());
  Block &body = kernel.getBody().emplaceBlock();
  body.addArguments(op.getOperandTypes(), locations);
  OpBuilder builder = OpBuilder::atBlockEnd(&body);
  Operation *inner = builder.clone(op);
  inner->setOperands(body.getArguments());
  inner->removeAttr(tape::kPhaseAttr);
  if (!places.empty())
    inner->setAttr("places", builder.getDenseI64ArrayAttr(places));
  builder.create<tape::YieldOp>(op.getLoc(), inner->getResults());
  return name(kernel, "_" + op.getName().stripDialect().str());
}

/// The name of the kernel, or of an equal one, which is then kept.
StringRef PlanTables::name(plan::KernelOp kernel, StringRef label) {
  std::string text;
  llvm::raw_string_ostream(text) << kernel;
  auto [entry, isNew] = kernels_.try_emplace(text);
  if (!isNew) {
    kernel.erase();
    return entry->second;
  }
  entry->second = "k" + std::to_string(kernels_.size() - 1) + label.substr(0, 60).str();
  kernel.setSymName(entry->second);
  return entry->second;
}

} // namespace tapeout
