// The loops of a kernel and where the elements of each tensor lie in them.
//
// A space starts as few dimensions as possible (one for an elementwise kernel) and is cut only where an access demands
// it: adding a bias [C] to [B, T, C] needs [B*T, C], transposing [R, C] needs [C, R]. A view of a tensor is a
// StridedAccess with one stride per dimension of the space; it gives the row-major linear index of an element.
#pragma once

#include "ir/tape/Facts.h"

#include "llvm/ADT/ArrayRef.h"

#include <optional>

namespace tapeout::codegen {

using View = tape::StridedAccess;

struct Dimension {
  int64_t extent;
  bool reduced; // disappears from the result
};

/// Whether the view is of the same element everywhere in the space.
bool isInvariant(const View &view);

/// The largest power of two, at most `lanes`, that divides the offset of each element that vectors of so many lanes begin at.
unsigned evennessOf(const View &view, unsigned lanes);

class IterationSpace {
public:
  /// Dimensions of extent 1 are dropped, but the last one stays: it is the one that vectors run along.
  explicit IterationSpace(llvm::ArrayRef<Dimension> dimensions);

  llvm::ArrayRef<Dimension> dimensions() const { return dimensions_; }
  int64_t laneExtent() const { return dimensions_.back().extent; }
  /// Extents of the kept or of the reduced ones of all dimensions but the last.
  llvm::SmallVector<int64_t> extents(bool reduced) const;

  /// The view of a tensor that has exactly the elements of the space, in order; reduced dimensions take part or not.
  View rowMajor(bool withReduced = true) const;
  bool isRowMajor(const View &view, bool withReduced) const;
  /// With the reduced dimensions.
  uint64_t elementCount() const;

  /// The view of the operand of an injective op, given the view of its result. None when a dimension has to be cut
  /// first (then cut() does it and every view must be made again) or when the view cannot be strided at all.
  std::optional<View> compose(const View &result, llvm::ArrayRef<int64_t> resultShape,
                              const tape::StridedAccess &access);

  /// Cuts the dimension that the last compose() asked for. False: it asked for nothing.
  bool cut();

private:
  struct Cut {
    unsigned dimension;
    int64_t inner;
  };

  llvm::SmallVector<Dimension, 6> dimensions_;
  std::optional<Cut> cut_;
};

} // namespace tapeout::codegen
