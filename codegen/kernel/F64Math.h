// exp, log, pow, cos and sin of f64 as arithmetic with explicit fma, for targets without a C library.
#pragma once

#include "mlir/IR/Builders.h"

namespace tapeout::codegen {

/// The value of a math op of f64, scalar or vector; null where there is no form. NaN stays NaN. Errors, in units in the
/// last place: exp 2, log 3, cos and sin 2 (of |x| < 1e5); pow as exp(y log x): 2 + 3 |y log x|, of positive x.
mlir::Value expandF64(mlir::OpBuilder &builder, mlir::Operation *op);

} // namespace tapeout::codegen
