// The element-by-element computation of a kernel's region: what one lane of the iteration space needs, in order.
//
// Each node is one tape value seen through one view. Injective ops leave no node, they only change the view;
// elementwise ops give their scalar body; arguments are loaded. Values that are the same for every element (rank-0
// operands, hyperparameters, constants) are computed once, before the loops.
#pragma once

#include "codegen/kernel/IterationSpace.h"
#include "codegen/kernel/KernelBuilder.h"

#include "llvm/ADT/DenseMap.h"

#include <vector>

namespace tapeout::codegen {

/// Indices of the space from those of its kept and its reduced dimensions (all but the last) and of the last.
KernelBuilder::Values mergeIndices(const IterationSpace &space, llvm::ArrayRef<mlir::Value> kept,
                                   llvm::ArrayRef<mlir::Value> reduced, mlir::Value lane);

/// Values at one element of the space, by what they are and through which view: those of several expressions.
class KnownValues {
public:
  const KernelBuilder::Values *find(mlir::Value value, const View &view) const;
  void add(mlir::Value value, const View &view, KernelBuilder::Values results);

private:
  struct Entry {
    mlir::Value value;
    View view;
    KernelBuilder::Values results;
  };
  std::vector<Entry> entries_;
};

class Expression {
public:
  /// Roots are tape values whose elements, in row-major order, are those of the space, with or without its reduced
  /// dimensions; cuts the space as accesses need. Reductions over the reduced dimensions are leaves: see provide().
  /// Fails, with a message on the op, where a value can neither be computed element by element nor read in strides.
  static mlir::FailureOr<Expression> build(mlir::ValueRange roots, IterationSpace &space);

  /// Computes what does not depend on the element. Call once, at the start of the kernel.
  void emitInvariants(KernelBuilder &kernel, llvm::ArrayRef<mlir::Value> pointers, unsigned laneCount);

  /// One value per root, at the element with these indices (one per dimension of the space) and those after it. `known`
  /// has values at this element that need not be computed again, and takes up those that are.
  KernelBuilder::Values emit(KernelBuilder &kernel, mlir::ValueRange indices, Lanes lanes,
                             KnownValues *known = nullptr) const;

  /// What the result of a reduction is in the current row, in all lanes. Before emit() of an expression that reads it.
  void provide(mlir::Value reduction, mlir::Value lanes) { provided_[reduction] = lanes; }
  /// The reductions that the expression reads.
  llvm::SmallVector<mlir::Value> reductions() const;

  /// What the expression reads element by element: arguments of the region and their views.
  llvm::SmallVector<std::pair<mlir::BlockArgument, View>> accesses() const;

  /// A dimension along which some tensor is dense that vectors read in strides, as in a transposition: a few of its
  /// indices should be computed together, while the cache lines are near.
  std::optional<unsigned> denseDimension() const;

private:
  struct Use {
    unsigned node, result;
  };
  struct Node {
    mlir::Value value; // an argument of the region, or the first result of an op
    View view;
    llvm::SmallVector<Use, 4> operands;
    bool isReduction = false; // provided from outside
    bool isLate = false;      // depends on a reduction
  };
  using NodeValues = llvm::SmallVector<KernelBuilder::Values>;

  // None, and failed_ set, where the space must be cut first or nothing helps.
  std::optional<Use> visit(mlir::Value value, View view, IterationSpace &space);
  // All results of the node.
  KernelBuilder::Values emitNode(KernelBuilder &kernel, const Node &node, const NodeValues &known,
                                 mlir::ValueRange indices, Lanes lanes) const;

  llvm::SmallVector<Node> nodes_; // operands before their users
  llvm::SmallVector<Use> roots_;
  llvm::SmallVector<mlir::Value> pointers_;
  NodeValues invariants_; // in all lanes; empty for other nodes
  llvm::DenseMap<mlir::Value, mlir::Value> provided_;
  mlir::Operation *failed_ = nullptr;
};

} // namespace tapeout::codegen
