// Rewrites semantic ops into the smaller ops they stand for.
#pragma once

#include "mlir/IR/Operation.h"

namespace tapeout::tape {

/// Decomposes every op with DecomposableOpInterface inside `root`, and what those give, until nothing changes. New ops
/// keep the location and the `tape.phase` of the op they replace; parts that nothing uses are left out.
mlir::LogicalResult decomposeOps(mlir::Operation *root);

} // namespace tapeout::tape
