// Values that lie in the memory of others. A library call takes strides: it reads a slice or a transpose where its operand
// lies, and writes its result where a transpose or a concatenation of it will be, so that these cost nothing.
// A product that is the addend of another one lies where that one's result does.
#pragma once

#include "ir/tape/MatMul.h"

namespace tapeout::tape {

/// Element i of a value is element offset + sum over d of strides[d] * i[d] of `base`, which is row-major.
struct StridedPlace {
  mlir::Value base;
  int64_t offset = 0;
  llvm::SmallVector<int64_t> strides;
};

/// A product with the places of its operands and of its result.
struct PlacedProduct {
  StridedPlace lhs, rhs, result;
  StridedMatmul matmul;
};

/// Where a value is found behind the views it is made of, as far back as strides can say.
StridedPlace sourceOf(mlir::Value value);

/// The call that executes `dot`, on `lhs` and `rhs` (its operands, or outside of a fusion what they are there): reads
/// through views of the operands where the target has a call for that (ir/tape/Target.h). None where it has none at all.
std::optional<PlacedProduct> placeProduct(DotGeneralOp dot, mlir::Value lhs, mlir::Value rhs);
inline std::optional<PlacedProduct> placeProduct(DotGeneralOp dot) { return placeProduct(dot, dot.getLhs(), dot.getRhs()); }

/// Where a library call that is no product reads an operand: behind views, if the call can.
StridedPlace placeOperand(mlir::OpOperand &operand);
/// Where such a call writes a result: where it belongs, if the call can.
StridedPlace placeResult(mlir::OpResult result);

/// The reshapes, transposes and concatenations between a result of a library call and the value in whose memory it is written.
llvm::SmallVector<mlir::Operation *> writtenThrough(mlir::OpResult result);
/// Whether the op is one of these, of some library call.
bool isWrittenThrough(mlir::Operation *op);

} // namespace tapeout::tape
