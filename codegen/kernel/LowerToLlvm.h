// From the built function of a kernel to LLVM IR.
#pragma once

#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinOps.h"

#include <memory>

namespace llvm {
class LLVMContext;
class Module;
} // namespace llvm

namespace tapeout::codegen {

/// Loads the dialects that kernels are built from and what their translation needs.
void loadCodegenDialects(mlir::MLIRContext &context);

/// Appends `void symbol(arguments)` and returns its entry block.
mlir::Block *createKernelFunction(mlir::OpBuilder &builder, mlir::Location loc, llvm::StringRef symbol,
                                  mlir::TypeRange arguments);
/// Ends the function: returns nothing.
void finishKernelFunction(mlir::OpBuilder &builder, mlir::Block *entry);

/// Lowers a module of kernel functions in place and translates it.
mlir::FailureOr<std::unique_ptr<llvm::Module>> lowerToLlvm(mlir::ModuleOp functions, llvm::LLVMContext &context);

} // namespace tapeout::codegen
