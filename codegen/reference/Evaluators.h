// How the reference interpreter computes one op.
#pragma once

#include "mlir/IR/Operation.h"

#include <functional>
#include <vector>

namespace tapeout::codegen::reference {

using Values = std::vector<double>; // of one tensor, row-major

/// Computes the results of an op from its operands. Outputs arrive with their size, all 0.
using Evaluator =
    std::function<mlir::LogicalResult(llvm::ArrayRef<const Values *> inputs, llvm::ArrayRef<Values *> outputs)>;

/// Asks the op's interfaces; only products, windows, lookups, split and concatenate have evaluators of their own. The op must
/// outlive the evaluator. Fails with a diagnostic for an op that cannot be computed.
mlir::FailureOr<Evaluator> evaluatorOf(mlir::Operation *op);

/// Rounds numbers to a floating-point type; leaves f64 and integers alone.
void roundTo(mlir::Type elementType, Values &values);

} // namespace tapeout::codegen::reference
