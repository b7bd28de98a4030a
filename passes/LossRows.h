// The ops that a loss is computed by, row by row: from the product that gives its logits to the products that read the
// logits' gradient. Placement rules say what a part of the rows gives (ir/tape/Placement.h): for an op it is the same
// whether the parts are on several devices or come one after the other.
#pragma once

#include "ir/tape/MatMul.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

#include "llvm/ADT/MapVector.h"

#include <optional>

namespace tapeout {

struct LossRows {
  /// In program order, the product of the logits first. Each with the rule by which it runs on a part of the rows.
  llvm::MapVector<mlir::Operation *, tape::PlacementRule> ops;
  int64_t rows = 0;    ///< that the logits can be cut into
  int64_t granule = 1; ///< parts begin at multiples of it: their addresses are aligned
  /// Ops among them that wait for results of all rows.
  llvm::SmallVector<mlir::Operation *> later;

  tape::DotGeneralOp product() const { return mlir::cast<tape::DotGeneralOp>(ops.front().first); }
};

/// None where the loss does not follow from one product, or where one of the ops needs all rows at once.
std::optional<LossRows> findLossRows(mlir::func::FuncOp func);

} // namespace tapeout
