// The ops of a function as the graph that fusion decides on (analysis/FusionGroups.h).
#pragma once

#include "ir/tape/Tape.h"
#include "passes/analysis/FusionGroups.h"

#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/DenseSet.h"

#include <vector>

namespace tapeout {

/// Read through by whoever uses it: made of nothing (a constant, an iota), or an operand's elements in another order.
bool isView(mlir::Operation *op);
/// What becomes no instruction outside of groups: a reshape, and what products read and write through (ir/tape/Strided.h).
bool isElided(mlir::Operation *op);
/// Reads whole operands from memory: a library call, a kernel that is no loop over elements, or the return.
bool readsMemory(mlir::Operation *op);

/// Every how many elements of `shape` an access with these strides starts anew or changes its stride.
std::vector<uint64_t> cutsOf(llvm::ArrayRef<int64_t> shape, llvm::ArrayRef<int64_t> strides);

/// What becomes a kernel or a library call, in program order. Node i is ops[i]. Views are nodes only where someone who
/// reads memory wants their result; a reshape never is: it is an alias.
struct KernelGraph {
  std::vector<mlir::Operation *> ops;
  std::vector<FusionNode> nodes;
  llvm::DenseMap<mlir::Operation *, uint32_t> indexOf;
  llvm::DenseSet<mlir::Operation *> writtenThrough; ///< their result is in memory: a product wrote it there

  bool isNode(mlir::Operation *op) const { return indexOf.contains(op); }
  /// A view that kernels read through.
  bool isReadThrough(mlir::Operation *op) const { return isView(op) && !writtenThrough.contains(op); }
};

KernelGraph buildKernelGraph(mlir::Block &block);

} // namespace tapeout
