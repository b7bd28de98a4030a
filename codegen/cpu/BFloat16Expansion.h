// Conversions between bf16 and f32 as integer arithmetic: processors without AVX512-BF16 have no instruction for them, and
// both instruction sets must give the same bits. Those of f16 are instructions everywhere.
#pragma once

#include "mlir/IR/Operation.h"

namespace tapeout::codegen {

/// Replaces arith.extf and arith.truncf between bf16 and f32 in a function. Rounding is that of runtime/base/BFloat16.h.
void expandBFloat16(mlir::Operation *function);

} // namespace tapeout::codegen
