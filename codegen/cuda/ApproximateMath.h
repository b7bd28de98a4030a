// The GPU's own exponential and division, and functions made of them, for results of 16 bits.
//
// PTX states their errors: ex2.approx.ftz.f32 2^-22, div.approx.ftz.f32 2 units in the last place (2^-22). So, relative:
//   exp x   2^-22 + |x| 2^-24 (the rounding of x log2 e), at most 2^-17; results below the normal range are zero
//   tanh x  2^-19
//   erf x   3e-7, absolute: GELU far below 0 is off by as much times |x| / 2
//   a / b   2^-22; zero where |b| is above 2^126
// Rounding to bf16 may be 2^-8 off, to f16 2^-11. NaN and infinities are as in codegen/kernel/MathExpansion.h.
#pragma once

#include "ir/plan/Plan.h"

namespace tapeout::codegen {

/// Whether all results of as many elements as the largest have 16 bits: f32 is then what the kernel computes in, and what it
/// sums those elements in.
bool mayApproximate(plan::KernelOp kernel);

/// Replaces exp, tanh, erf and division of f32 vectors in the function, and lets products and sums of vectors round once in a
/// function that has any. Scalars, such as the statistics of a row, stay exact.
void approximateMath(mlir::Operation *function);

} // namespace tapeout::codegen
