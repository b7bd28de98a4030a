// Functions, arguments and gradients for tests of ops.
#pragma once

#include "codegen/reference/Interpreter.h"
#include "tests/ops/Sample.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/MLIRContext.h"

#include <map>

namespace tapeout::ops {

using codegen::reference::Precision;
using codegen::reference::Tensor;

/// A single-threaded context with the dialects of a step.
std::unique_ptr<mlir::MLIRContext> makeContext();

/// A module with one function @f of these argument types; `build` returns the function's results.
struct TestModule {
  mlir::OwningOpRef<mlir::ModuleOp> module;
  mlir::func::FuncOp function;
};
TestModule makeFunction(mlir::MLIRContext &context, mlir::TypeRange arguments,
                        const std::function<std::vector<mlir::Value>(tape::TapeBuilder &, mlir::ValueRange)> &build);
/// The sample's function.
TestModule makeFunction(mlir::MLIRContext &context, const Sample &sample);

std::vector<Tensor> makeArguments(mlir::MLIRContext &context, const std::vector<Input> &inputs, uint64_t seed);
/// Random floats in [-1, 1] of a type.
Tensor randomTensor(mlir::Type type, uint64_t seed);

/// Runs the function; an empty result if that fails.
std::vector<Tensor> interpret(mlir::func::FuncOp function, llvm::ArrayRef<Tensor> arguments, Precision precision);

/// The gradients of values before `builder`'s position in one block, given those of some values: reverse accumulation.
std::map<void *, mlir::Value> accumulateGradients(tape::TapeBuilder &builder, mlir::Block &block,
                                                  llvm::ArrayRef<std::pair<mlir::Value, mlir::Value>> seeds);

/// A copy of `function` that takes a dy for each of `outputs` too and returns the gradients of its float arguments: 0
/// where nothing depends on one.
TestModule makeGradientFunction(mlir::func::FuncOp function, llvm::ArrayRef<unsigned> outputs);

/// Checks the gradients of a function's float arguments for sum over `outputs` of dy * result, dy random, against
/// central differences in fp64, relative to the largest gradient of the argument. About `maxElements` elements of each
/// argument are varied.
void checkGradients(mlir::func::FuncOp function, llvm::ArrayRef<Tensor> arguments, llvm::ArrayRef<unsigned> outputs,
                    double tolerance = 1e-6, size_t maxElements = 64);

/// Expects |a - b| <= tolerance * max(|a|, |b|, 1) for each element, and NaN with NaN.
void expectClose(llvm::ArrayRef<double> actual, llvm::ArrayRef<double> expected, double tolerance,
                 const std::string &what);

} // namespace tapeout::ops
