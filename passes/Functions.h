// Helpers for the functions of a module: roles of arguments, named results, phases.
#pragma once

#include "ir/tape/Tape.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace tapeout {

/// Attribute tape.role, tape.name, ... of an argument; "" where absent.
llvm::StringRef argumentAttr(mlir::func::FuncOp func, unsigned index, llvm::StringRef attribute);
llvm::StringRef resultAttr(mlir::func::FuncOp func, unsigned index, llvm::StringRef attribute);

/// The first argument with this role, or null.
mlir::BlockArgument findArgument(mlir::func::FuncOp func, llvm::StringRef role);
/// The arguments with this role, in order.
llvm::SmallVector<unsigned> argumentsWithRole(mlir::func::FuncOp func, llvm::StringRef role);
/// Whether a parameter argument is to be trained.
bool isTrainable(mlir::func::FuncOp func, unsigned argument);

/// What an argument to append looks like.
struct ArgumentSpec {
  mlir::Type type;
  std::string role, name;
};
/// Appends arguments, all at once: the function's type is rebuilt each time.
llvm::SmallVector<mlir::BlockArgument> addArguments(mlir::func::FuncOp func, llvm::ArrayRef<ArgumentSpec> specs);
/// Appends one argument.
mlir::BlockArgument addArgument(mlir::func::FuncOp func, mlir::Type type, llvm::StringRef role, llvm::StringRef name);

/// A result of a function with its attributes, to rebuild the list of results.
struct NamedResult {
  mlir::Value value;
  mlir::DictionaryAttr attributes;
};
llvm::SmallVector<NamedResult> getResults(mlir::func::FuncOp func);
void setResults(mlir::func::FuncOp func, llvm::ArrayRef<NamedResult> results);
NamedResult namedResult(mlir::Value value, llvm::StringRef name);
/// The value returned under a name, or null.
mlir::Value findResult(mlir::func::FuncOp func, llvm::StringRef name);

/// Marks every op inserted through a builder as part of a phase, for as long as it lives.
class PhaseScope : public mlir::OpBuilder::Listener {
public:
  PhaseScope(mlir::OpBuilder &builder, llvm::StringRef phase);
  ~PhaseScope() override { builder_.setListener(previous_); }
  void notifyOperationInserted(mlir::Operation *op, mlir::OpBuilder::InsertPoint previous) override;

private:
  mlir::OpBuilder &builder_;
  mlir::OpBuilder::Listener *previous_;
  mlir::StringAttr phase_;
};

} // namespace tapeout
