// Translates the scalar body of an op (ScalarBodyOpInterface) into bytecode.
#pragma once

#include "codegen/reference/Bytecode.h"

#include "mlir/IR/Operation.h"

namespace tapeout::codegen::reference {

/// The body of an elementwise op: one input per operand, rank-0 operands of a larger result as scalars.
mlir::FailureOr<Bytecode> translateElementwise(mlir::Operation *op);

/// The combiner of a reduction: two inputs, one output. Floats combine in f64, whatever their type, so that a result
/// is rounded once.
mlir::FailureOr<Bytecode> translateCombiner(mlir::Operation *op);

/// Appends the rounding of register `from` to a float type; returns the register with the result, `from` for f64.
uint16_t appendRounding(Bytecode &code, uint16_t from, mlir::Type elementType);

} // namespace tapeout::codegen::reference
