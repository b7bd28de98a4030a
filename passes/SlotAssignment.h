// Which memory slot each value of a program lies in: arguments in persistent slots, results where the return wants them,
// over an operand that dies, or in a slot of their own.
#pragma once

#include "passes/PlanTables.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

#include "llvm/ADT/DenseMap.h"

namespace tapeout {

/// One program. Ask in program order: a slot is free for others once its last reader is reached.
class SlotAssignment {
public:
  /// Gives arguments and returned values their slots.
  SlotAssignment(mlir::func::FuncOp func, PlanTables &tables);

  /// None for what is never in memory, because its reader reads it through strides.
  mlir::Value slotOf(mlir::Value value) const { return slots_.lookup(value); }
  /// A new slot of the arena, if the value has none.
  mlir::Value slotFor(mlir::Value value);
  void assign(mlir::Value value, mlir::Value slot) { slots_[value] = slot; }
  /// Results of the group take the memory of operands that nobody needs any more.
  void chooseOverwritten(tape::FusionOp fusion);

  /// Of every returned value: where it has to be at the end.
  llvm::ArrayRef<mlir::Value> targets() const { return targets_; }
  /// Slots that a caller reads (metrics), and their names.
  llvm::ArrayRef<mlir::Value> outputs() const { return outputs_; }
  llvm::ArrayRef<mlir::Attribute> outputNames() const { return outputNames_; }

private:
  /// Results that may be produced right where the return wants them.
  void chooseResultSlots();
  /// Every reader of the argument's old value comes before the new one, or computes it and reads only what it overwrites.
  bool canOverwrite(mlir::Value argument, mlir::OpResult result);
  /// Of a value in a slot, and of what is read through it.
  void noteLastUse(mlir::Value value, mlir::Value slot);

  mlir::func::FuncOp func_;
  PlanTables &tables_;
  llvm::DenseMap<mlir::Operation *, unsigned> order_;
  llvm::DenseMap<mlir::Value, mlir::Value> slots_;
  llvm::DenseMap<mlir::Value, mlir::Operation *> lastUses_; // of each arena slot
  llvm::SmallVector<mlir::Value> targets_, outputs_;
  llvm::SmallVector<mlir::Attribute> outputNames_;
};

} // namespace tapeout
