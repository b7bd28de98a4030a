// The functions of bodies that no instruction computes.
//
// f32, scalar or vector, becomes arithmetic with explicit fma: the same operations in every lane and on both
// instruction sets. Largest errors, in units in the last place of the exact result (tests/codegen/MathTest.cpp):
//   exp 2, log 2, tanh 4, erf 4.
// NaN stays NaN; exp(-inf) = 0, exp of more than 88.73 is inf, results below the normal range are denormal; log(0) =
// -inf, log of a negative number is NaN; tanh and erf of infinities are 1 and -1.
// f64 functions call the C library, or are expanded where there is none (F64Math.h): hyperparameters need them, tensors don't.
#pragma once

#include "mlir/IR/Operation.h"
#include "mlir/Support/LLVM.h"

namespace tapeout::codegen {

enum class F64Functions { Library, Expanded };

/// Replaces the ops of the math dialect in a function; fma and sqrt, which are instructions, stay.
mlir::LogicalResult expandMath(mlir::Operation *function, F64Functions f64 = F64Functions::Library);

} // namespace tapeout::codegen
