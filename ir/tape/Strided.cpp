#include "ir/tape/Strided.h"

#include "ir/tape/Shape.h"
#include "ir/tape/Target.h"

using namespace mlir;

namespace tapeout::tape {

namespace {

StridedPlace rowMajor(Value value) {
  auto strides = rowMajorStrides(shapeOf(value));
  return {value, 0, SmallVector<int64_t>(strides.begin(), strides.end())};
}

/// Dimensions of a placed tensor; those that are evenly spaced together are one.
struct PlacedDimension {
  int64_t extent, linear, stride; // linear: its stride in row-major order
};

SmallVector<PlacedDimension> simplify(ArrayRef<int64_t> shape, ArrayRef<int64_t> strides) {
  SmallVector<PlacedDimension> dimensions; // innermost first
  int64_t linear = 1;
  for (size_t d = shape.size(); d-- > 0; linear *= shape[d]) {
    if (shape[d] == 1)
      continue;
    if (!dimensions.empty() && strides[d] == dimensions.back().stride * dimensions.back().extent)
      dimensions.back().extent *= shape[d];
    else
      dimensions.push_back({shape[d], linear, strides[d]});
  }
  return dimensions;
}

/// The place of a view of shape `result`, which reads elements access.offset + ... of a tensor of shape `operand` that lies
/// at `place`. None where the view crosses a dimension of the tensor that is not evenly spaced.
std::optional<StridedPlace> through(const StridedPlace &place, ArrayRef<int64_t> operand, ArrayRef<int64_t> result,
                                    const StridedAccess &access) {
  SmallVector<PlacedDimension> dimensions = simplify(operand, place.strides);
  SmallVector<int64_t> last; // of each dimension, the largest index that is read
  StridedPlace view{place.base, place.offset, {}};
  for (const PlacedDimension &dimension : dimensions) {
    last.push_back(access.offset / dimension.linear % dimension.extent);
    view.offset += last.back() * dimension.stride;
  }
  for (auto [extent, step] : llvm::zip(result, access.strides)) {
    int64_t &stride = view.strides.emplace_back(0);
    if (extent == 1 || step == 0)
      continue;
    size_t d = 0;
    while (d < dimensions.size() && step >= dimensions[d].linear * dimensions[d].extent)
      ++d;
    if (d == dimensions.size() || step % dimensions[d].linear != 0)
      return std::nullopt;
    int64_t steps = step / dimensions[d].linear;
    stride = steps * dimensions[d].stride;
    last[d] += steps * (extent - 1);
  }
  for (auto [index, dimension] : llvm::zip(last, dimensions))
    if (index >= dimension.extent)
      return std::nullopt;
  return view;
}

std::optional<StridedPlace> through(const StridedPlace &place, AccessOpInterface view) {
  std::optional<StridedAccess> access = view.getAccess();
  return access ? through(place, shapeOf(view->getOperand(0)), shapeOf(view->getResult(0)), *access) : std::nullopt;
}

/// Where operand `number` of a bijective view or a concatenation lies, given the place of its result.
std::optional<StridedPlace> behind(const StridedPlace &place, OpOperand &operand) {
  Operation *op = operand.getOwner();
  StridedPlace result = place;
  if (auto concatenate = dyn_cast<ConcatenateOp>(op)) {
    for (Value before : op->getOperands().take_front(operand.getOperandNumber()))
      result.offset += shapeOf(before)[concatenate.getDimension()] * place.strides[concatenate.getDimension()];
    return result;
  }
  if (auto transpose = dyn_cast<TransposeOp>(op)) {
    for (auto [i, dimension] : llvm::enumerate(transpose.getPermutation()))
      result.strides[dimension] = place.strides[i];
    return result;
  }
  ArrayRef<int64_t> shape = shapeOf(operand.get()); // of a reshape, whose inverse is one, too
  return through(place, shapeOf(op->getResult(0)), shape, {0, rowMajorStrides(shape)});
}

bool isBijective(Operation *op) { return isa<ReshapeOp, TransposeOp>(op); }

std::optional<StridedMatmul> asCall(DotGeneralOp dot, const StridedPlace &lhs, const StridedPlace &rhs, const StridedPlace &result) {
  auto matmul = asStridedMatmul(dot, lhs.strides, rhs.strides, result.strides);
  return matmul ? asTargetMatmul(targetOf(dot), *matmul) : std::nullopt;
}

/// The result of a library call that becomes `value`, if nobody reads what lies between; `place`, if given, follows it back.
OpResult resultBehind(Value value, std::optional<StridedPlace> *place = nullptr) {
  while (value.hasOneUse()) {
    Operation *op = value.getDefiningOp();
    if (isa_and_nonnull<DotGeneralOp, StridedCallOpInterface>(op))
      return cast<OpResult>(value);
    if (!op || !isBijective(op))
      return nullptr;
    if (place && *place)
      *place = behind(**place, op->getOpOperand(0));
    value = op->getOperand(0);
  }
  return nullptr;
}

bool canWrite(OpResult result, const StridedPlace &place) {
  if (auto dot = dyn_cast<DotGeneralOp>(result.getOwner())) {
    auto before = dot.getAddend() ? dot.getAddend().getDefiningOp<DotGeneralOp>() : DotGeneralOp();
    return asCall(dot, rowMajor(dot.getLhs()), rowMajor(dot.getRhs()), place) &&
           (!before || canWrite(cast<OpResult>(before.getResult()), place)); // what the product is added to is there, too
  }
  return cast<StridedCallOpInterface>(result.getOwner()).writesStrides(result.getResultNumber(), place.strides);
}

/// All operands are results of library calls that nobody else reads, and can be written where they belong.
bool isJoinedInPlace(ConcatenateOp op) {
  return llvm::all_of(op->getOpOperands(), [&](OpOperand &operand) {
    std::optional<StridedPlace> place = behind(rowMajor(op.getResult()), operand);
    OpResult result = resultBehind(operand.get(), &place);
    return result && place && canWrite(result, *place);
  });
}

/// Where a result of a library call that is `value`, or becomes it, is written: in what is made of it, if nobody else reads it.
StridedPlace targetOf(Value value) {
  if (!value.hasOneUse())
    return rowMajor(value);
  OpOperand &use = *value.use_begin();
  auto sum = dyn_cast<DotGeneralOp>(use.getOwner());
  if (sum && sum.getAddend() == value && value.getDefiningOp<DotGeneralOp>())
    return targetOf(sum.getResult());
  std::optional<StridedPlace> place;
  if (auto concatenate = dyn_cast<ConcatenateOp>(use.getOwner()))
    place = isJoinedInPlace(concatenate) ? behind(rowMajor(concatenate.getResult()), use) : std::nullopt;
  else if (isBijective(use.getOwner()))
    place = behind(targetOf(use.getOwner()->getResult(0)), use);
  if (!place)
    return rowMajor(value);
  if (auto reshape = place->base.getDefiningOp<ReshapeOp>(); reshape && place->base == use.getOwner()->getResult(0))
    return rowMajor(value); // the same memory
  return *place;
}

} // namespace

StridedPlace sourceOf(Value value) {
  StridedPlace best = rowMajor(value);
  SmallVector<AccessOpInterface> views;
  for (Value base = value; auto view = base.getDefiningOp<AccessOpInterface>();) {
    OpResult result = resultBehind(view->getOperand(0));
    if (result && targetOf(result).base != result) // written where this view is, not before it
      break;
    views.push_back(view);
    base = view->getOperand(0);
    std::optional<StridedPlace> place = rowMajor(base);
    for (AccessOpInterface next : llvm::reverse(views))
      place = place ? through(*place, next) : std::nullopt;
    if (!place)
      break;
    best = *place;
  }
  return best;
}

std::optional<PlacedProduct> placeProduct(DotGeneralOp dot, Value lhs, Value rhs) {
  StridedPlace lhsPlace = sourceOf(lhs), rhsPlace = sourceOf(rhs), result = targetOf(dot.getResult());
  // What stands in the way of one call is made in memory instead.
  for (const StridedPlace &c : {result, rowMajor(dot.getResult())})
    for (const StridedPlace &l : {lhsPlace, rowMajor(lhs)})
      for (const StridedPlace &r : {rhsPlace, rowMajor(rhs)})
        if (auto matmul = asCall(dot, l, r, c))
          return PlacedProduct{l, r, c, *matmul};
  return std::nullopt;
}

StridedPlace placeOperand(OpOperand &operand) {
  auto call = dyn_cast<StridedCallOpInterface>(operand.getOwner());
  StridedPlace place = sourceOf(operand.get());
  return call && call.readsStrides(operand.getOperandNumber(), place.strides) ? place : rowMajor(operand.get());
}

StridedPlace placeResult(OpResult result) {
  if (!isa<StridedCallOpInterface>(result.getOwner()))
    return rowMajor(result);
  StridedPlace place = targetOf(result);
  return canWrite(result, place) ? place : rowMajor(result);
}

SmallVector<Operation *> writtenThrough(OpResult result) {
  Value base = placeResult(result).base;
  if (auto dot = dyn_cast<DotGeneralOp>(result.getOwner())) {
    std::optional<PlacedProduct> product = placeProduct(dot);
    base = product ? product->result.base : result;
  }
  SmallVector<Operation *> ops;
  for (Value value = result; value != base;) {
    Operation *user = *value.user_begin();
    if (!isa<DotGeneralOp>(user)) // adds to the value
      ops.push_back(user);
    value = user->getResult(0);
  }
  return ops;
}

bool isWrittenThrough(Operation *op) {
  if (op->getNumOperands() == 0 || op->getNumResults() != 1)
    return false;
  OpResult result = resultBehind(op->getOperand(0)); // of a concatenation, all operands are or none
  return result && llvm::is_contained(writtenThrough(result), op);
}

} // namespace tapeout::tape
