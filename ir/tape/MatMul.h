#pragma once

#include "ir/tape/Tape.h"

#define GET_OP_CLASSES
#include "ir/tape/MatMul.h.inc"

namespace tapeout::tape {
void registerMatMulOps(TapeDialect &dialect);

/// A batched product in terms of element strides, as plan.matmul and the vendors' libraries take it.
struct StridedMatmul {
  struct Batch {
    int64_t extent, lhs, rhs, result;
  };
  int64_t m, n, k;
  int64_t lhsRow, lhsColumn; // of m, of k
  int64_t rhsRow, rhsColumn; // of k, of n
  int64_t resultRow, resultColumn;
  llvm::SmallVector<Batch> batch;
  llvm::StringRef triangle; // DotGeneralOp's, where m, n and k are the dimensions that it speaks of; else empty
};

/// The product as one strided call over row-major operands; none when its contracted dimensions do not collapse into one
/// stride (decompose then transposes the operands).
std::optional<StridedMatmul> asStridedMatmul(DotGeneralOp op);
/// The same with these strides of the operands and the result, one per dimension (ir/tape/Strided.h chooses them).
std::optional<StridedMatmul> asStridedMatmul(DotGeneralOp op, llvm::ArrayRef<int64_t> lhsStrides, llvm::ArrayRef<int64_t> rhsStrides,
                                             llvm::ArrayRef<int64_t> resultStrides);
} // namespace tapeout::tape
