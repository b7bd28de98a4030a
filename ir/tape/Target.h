// What passes may ask about the machine that a plan is made for. A module names its target by the attribute tape.target.
#pragma once

#include "ir/tape/MatMul.h"

namespace tapeout::tape {

inline constexpr llvm::StringLiteral kTargetAttr = "tape.target"; // on the module; absent: cpu

struct Target {
  llvm::StringRef name;
  bool tileEpilogues;            // a kernel can take up a product piece by piece
  bool biasEpilogues;            // a product can add a bias to its rows
  bool windows;                  // convolutions and poolings
  bool anyStrides;               // products take matrices without a unit stride
  int64_t batchDimensions;       // of one call of a product
  int64_t productCalls;          // that one product may become, for further batch dimensions
  int64_t attentionHeadSize;     // largest head of attention that is one call of the library, on any GPU; 0: none is
  int64_t columnReductionParts;  // that long columns are cut into, so that many threads can share them
  bool bandsInRowKernels;        // a kernel that computes rows can reduce bands of them
  bool sortedEmbeddingGrad;      // gradients of embeddings are sums of sorted rows
};

/// Null: there is no target of this name.
const Target *findTarget(llvm::StringRef name);
/// Of the module that the op is in.
const Target &targetOf(mlir::Operation *op);

/// The product as the target's library takes it, its batch dimensions merged where they are one there; the longest comes
/// last. None where the library has no call for it.
std::optional<StridedMatmul> asTargetMatmul(const Target &target, const StridedMatmul &matmul);

} // namespace tapeout::tape
