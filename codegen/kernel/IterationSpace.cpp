#include "codegen/kernel/IterationSpace.h"

#include "llvm/ADT/STLExtras.h"

using llvm::ArrayRef;
using llvm::SmallVector;

namespace tapeout::codegen {
namespace {

// A dimension of a tensor: row-major stride in it, and the stride of an access along it.
struct AccessDimension {
  int64_t extent, stride, accessStride;
};

// The fewest dimensions that describe the same access.
SmallVector<AccessDimension, 6> simplify(ArrayRef<int64_t> shape, const tape::StridedAccess &access) {
  SmallVector<AccessDimension, 6> dimensions; // innermost first
  int64_t stride = 1;
  for (size_t i = shape.size(); i-- > 0; stride *= shape[i]) {
    if (shape[i] == 1)
      continue;
    if (!dimensions.empty() && access.strides[i] == dimensions.back().accessStride * dimensions.back().extent)
      dimensions.back().extent *= shape[i];
    else
      dimensions.push_back({shape[i], stride, access.strides[i]});
  }
  return dimensions;
}

} // namespace

bool isInvariant(const View &view) {
  return llvm::all_of(view.strides, [](int64_t stride) { return stride == 0; });
}

unsigned evennessOf(const View &view, unsigned lanes) {
  uint64_t all = lanes | view.offset;
  for (int64_t stride : ArrayRef(view.strides).drop_back())
    all |= stride;
  return all & -all; // the lowest set bit
}

IterationSpace::IterationSpace(ArrayRef<Dimension> dimensions) {
  for (const Dimension &dimension : dimensions.drop_back())
    if (dimension.extent != 1)
      dimensions_.push_back(dimension);
  dimensions_.push_back(dimensions.back());
}

SmallVector<int64_t> IterationSpace::extents(bool reduced) const {
  SmallVector<int64_t> result;
  for (const Dimension &dimension : dimensions().drop_back())
    if (dimension.reduced == reduced)
      result.push_back(dimension.extent);
  return result;
}

View IterationSpace::rowMajor(bool withReduced) const {
  View view{0, SmallVector<int64_t, 6>(dimensions_.size(), 0)};
  int64_t stride = 1;
  for (size_t i = dimensions_.size(); i-- > 0;) {
    if (dimensions_[i].reduced && !withReduced)
      continue;
    view.strides[i] = stride;
    stride *= dimensions_[i].extent;
  }
  return view;
}

bool IterationSpace::isRowMajor(const View &view, bool withReduced) const {
  View expected = rowMajor(withReduced);
  for (auto [i, dimension] : llvm::enumerate(dimensions_))
    if (dimension.extent != 1 && view.strides[i] != expected.strides[i])
      return false;
  return view.offset == 0;
}

uint64_t IterationSpace::elementCount() const {
  uint64_t count = 1;
  for (const Dimension &dimension : dimensions_)
    count *= dimension.extent;
  return count;
}

std::optional<View> IterationSpace::compose(const View &result, ArrayRef<int64_t> resultShape,
                                            const tape::StridedAccess &access) {
  View view{access.offset, SmallVector<int64_t, 6>(dimensions_.size(), 0)};
  for (const AccessDimension &into : simplify(resultShape, access)) {
    int64_t base = result.offset / into.stride % into.extent, last = base;
    view.offset += base * into.accessStride;
    for (auto [i, dimension] : llvm::enumerate(dimensions_)) {
      int64_t stride = result.strides[i];
      if (stride < into.stride || stride >= into.stride * into.extent || dimension.extent == 1)
        continue;
      if (stride % into.stride != 0)
        return std::nullopt;
      int64_t step = stride / into.stride;
      if (step * (dimension.extent - 1) >= into.extent) { // runs over into the next dimension of the tensor
        if (into.extent % step == 0 && dimension.extent % (into.extent / step) == 0)
          cut_ = Cut{static_cast<unsigned>(i), into.extent / step};
        return std::nullopt;
      }
      view.strides[i] = step * into.accessStride;
      last += step * (dimension.extent - 1);
    }
    if (last >= into.extent)
      return std::nullopt;
  }
  return view;
}

bool IterationSpace::cut() {
  if (!cut_)
    return false;
  Dimension &outer = dimensions_[cut_->dimension];
  Dimension inner{cut_->inner, outer.reduced};
  outer.extent /= cut_->inner;
  dimensions_.insert(dimensions_.begin() + cut_->dimension + 1, inner);
  cut_.reset();
  return true;
}

} // namespace tapeout::codegen
