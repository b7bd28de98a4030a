#include "codegen/kernel/LowerToLlvm.h"

#include "mlir/Conversion/ArithToLLVM/ArithToLLVM.h"
#include "mlir/Conversion/ControlFlowToLLVM/ControlFlowToLLVM.h"
#include "mlir/Conversion/LLVMCommon/ConversionTarget.h"
#include "mlir/Conversion/LLVMCommon/TypeConverter.h"
#include "mlir/Conversion/MathToLLVM/MathToLLVM.h"
#include "mlir/Conversion/SCFToControlFlow/SCFToControlFlow.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/ControlFlow/IR/ControlFlow.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Target/LLVMIR/Dialect/Builtin/BuiltinToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Dialect/LLVMIR/LLVMToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Export.h"
#include "mlir/Transforms/DialectConversion.h"
#include "llvm/IR/Module.h"

using namespace mlir;

namespace tapeout::codegen {

void loadCodegenDialects(MLIRContext &context) {
  DialectRegistry registry;
  registerBuiltinDialectTranslation(registry);
  registerLLVMDialectTranslation(registry);
  context.appendDialectRegistry(registry);
  context.loadDialect<arith::ArithDialect, cf::ControlFlowDialect, LLVM::LLVMDialect, math::MathDialect,
                      scf::SCFDialect>();
}

Block *createKernelFunction(OpBuilder &builder, Location loc, StringRef symbol, TypeRange arguments) {
  auto type = LLVM::LLVMFunctionType::get(LLVM::LLVMVoidType::get(builder.getContext()), llvm::to_vector(arguments));
  return builder.create<LLVM::LLVMFuncOp>(loc, symbol, type).addEntryBlock(builder);
}

void finishKernelFunction(OpBuilder &builder, Block *entry) {
  builder.setInsertionPointToEnd(entry);
  builder.create<LLVM::ReturnOp>(entry->getParentOp()->getLoc(), ValueRange());
}

FailureOr<std::unique_ptr<llvm::Module>> lowerToLlvm(ModuleOp functions, llvm::LLVMContext &context) {
  LLVMTypeConverter converter(functions.getContext());
  RewritePatternSet patterns(functions.getContext());
  populateSCFToControlFlowConversionPatterns(patterns);
  cf::populateControlFlowToLLVMConversionPatterns(converter, patterns);
  arith::populateArithToLLVMConversionPatterns(converter, patterns);
  populateMathToLLVMConversionPatterns(converter, patterns);
  LLVMConversionTarget target(*functions.getContext());
  target.addLegalOp<ModuleOp>();
  if (failed(applyFullConversion(functions, target, std::move(patterns))))
    return failure();
  std::unique_ptr<llvm::Module> module = translateModuleToLLVMIR(functions, context, "kernels");
  if (!module)
    return functions.emitError("the kernels cannot be translated to LLVM IR");
  return module;
}

} // namespace tapeout::codegen
