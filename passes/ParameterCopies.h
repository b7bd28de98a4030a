// Copies of parameters in low precision, which the model reads while the optimizer updates the parameters themselves in
// f32 (the masters): AMP level O2. An argument of role "copy" is a memory that every function sees; what it holds follows
// from the parameter, so that it is not saved: @prepare fills it at the start and @step whenever the parameter changes.
#pragma once

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace tapeout {

/// The copy of this element type of a parameter, an argument of `func` which is appended where it is missing.
mlir::BlockArgument copyOfParameter(mlir::func::FuncOp func, mlir::BlockArgument parameter, mlir::Type element);
/// @step returns the copy of every parameter that it updates.
void updateCopies(mlir::func::FuncOp step);
/// Appends @prepare, which returns all copies of the module's functions; none if there are none.
void buildPrepare(mlir::ModuleOp module);

} // namespace tapeout
