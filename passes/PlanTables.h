// Slots and kernels of a plan while functions are lowered to programs.
#pragma once

#include "ir/plan/Plan.h"
#include "ir/tape/Fusion.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"

#include "llvm/ADT/StringMap.h"

namespace tapeout {

/// What all programs of a plan share. New ops go to the beginning (slots) and the end (kernels) of the module.
class PlanTables {
public:
  explicit PlanTables(mlir::ModuleOp module);

  mlir::Value createSlot(llvm::StringRef kind, llvm::StringRef name, mlir::Type type, mlir::Location loc);
  /// The slot of a function argument: one for all arguments of the same role, name and type.
  mlir::Value persistentSlot(mlir::func::FuncOp func, unsigned index);
  /// Outlines the region of a group; an equal kernel that is already there is used instead. `columns`: see plan.kernel.
  llvm::StringRef kernelFor(tape::FusionOp fusion, mlir::IntegerAttr columns = {});
  /// A kernel that is written by hand, for tensors that lie at `places`.
  llvm::StringRef kernelFor(mlir::Operation &op, llvm::ArrayRef<int64_t> places);

private:
  llvm::StringRef name(plan::KernelOp kernel, llvm::StringRef label);

  mlir::OpBuilder builder_, kernelBuilder_;
  llvm::StringMap<mlir::Value> persistent_;
  llvm::StringMap<std::string> kernels_;
};

} // namespace tapeout
