#include "ir/tape/Shape.h"

#include "ir/tape/Scalars.h"
#include "ir/tape/TapeBuilder.h"
#include "runtime/base/Hyperparameters.h"

#include "mlir/Dialect/Arith/IR/Arith.h"

#define GET_OP_CLASSES
#include "ir/tape/Shape.cpp.inc"

using namespace mlir;

namespace tapeout::tape {

void registerShapeOps(TapeDialect &dialect) {
  addOps<
#define GET_OP_LIST
#include "ir/tape/Shape.cpp.inc"
      >(dialect);
}

Operation *TapeDialect::materializeConstant(OpBuilder &builder, Attribute value, Type type, Location loc) {
  auto tensor = dyn_cast<RankedTensorType>(type);
  auto number = dyn_cast<FloatAttr>(value);
  if (!tensor || tensor.getRank() != 0 || !number)
    return nullptr;
  return builder.create<ConstantOp>(loc, number, TypeAttr::get(tensor.getElementType()));
}

namespace {
using Results = SmallVectorImpl<Value>;

// Shapes come from model files: every extent is checked before a type is made of it.
LogicalResult checkShape(std::optional<Location> loc, ArrayRef<int64_t> shape) {
  uint64_t elements = 1;
  for (int64_t extent : shape)
    if (extent <= 0 || __builtin_mul_overflow(elements, static_cast<uint64_t>(extent), &elements) || elements >> 48)
      return emitOptionalError(loc, "shape [", shape, "] has an extent below 1 or is too large");
  return success();
}

bool isPermutation(ArrayRef<int64_t> values, int64_t rank) {
  SmallVector<bool> seen(rank, false);
  for (int64_t value : values) {
    if (value < 0 || value >= rank || seen[value])
      return false;
    seen[value] = true;
  }
  return static_cast<int64_t>(values.size()) == rank;
}
} // namespace

//===- constant, iota -------------------------------------------------------------------------------------------------===//

LogicalResult ConstantOp::inferReturnTypes(MLIRContext *, std::optional<Location>, Adaptor adaptor,
                                           SmallVectorImpl<Type> &types) {
  types.push_back(RankedTensorType::get({}, adaptor.getElementType()));
  return success();
}
OpFoldResult ConstantOp::fold(FoldAdaptor) { return getValueAttr(); }
void ConstantOp::buildScalarBody(OpBuilder &b, Location loc, ValueRange, Value index, Results &results) {
  Type type = withElement(index.getType(), getElementType());
  Value like = b.create<arith::ConstantOp>(loc, b.getZeroAttr(type));
  results.push_back(ScalarBuilder(b, loc).constant(like, getValue().convertToDouble()));
}

LogicalResult IotaOp::inferReturnTypes(MLIRContext *context, std::optional<Location> loc, Adaptor adaptor,
                                       SmallVectorImpl<Type> &types) {
  if (failed(checkShape(loc, adaptor.getShape())))
    return failure();
  types.push_back(RankedTensorType::get(adaptor.getShape(), IntegerType::get(context, 32)));
  return success();
}
LogicalResult IotaOp::verify() {
  if (getDimension() < 0 || getDimension() >= static_cast<int64_t>(getShape().size()))
    return emitOpError("dimension ") << getDimension() << " is outside the shape";
  return success();
}
void IotaOp::buildScalarBody(OpBuilder &b, Location loc, ValueRange, Value index, Results &results) {
  ScalarBuilder s(b, loc);
  int64_t inner = rowMajorStrides(getShape())[getDimension()], extent = getShape()[getDimension()];
  Value value = index;
  if (inner != 1)
    value = s.divUnsigned(value, s.constantInt(value, inner));
  if (getDimension() != 0)
    value = s.remUnsigned(value, s.constantInt(value, extent));
  results.push_back(s.convert(value, b.getI32Type()));
}

void IotaOp::getPlacementRules(PlacementRules &rules) {
  for (int64_t d = 0; d < rankOf(getResult()); ++d)
    if (d != static_cast<int64_t>(getDimension()))
      rules.push_back({{}, {shard(d)}});
}

//===- reshape, transpose, broadcast_in_dim, slice, hyperparameter --------------------------------------------------------===//

uint64_t ReshapeOp::getFlops() { return 0; }
uint64_t TransposeOp::getFlops() { return 0; }
uint64_t BroadcastInDimOp::getFlops() { return 0; }
uint64_t SliceOp::getFlops() { return 0; }
uint64_t HyperparameterOp::getFlops() { return 0; }
uint64_t SplitOp::getFlops() { return 0; }
uint64_t ConcatenateOp::getFlops() { return 0; }

LogicalResult ReshapeOp::inferReturnTypes(MLIRContext *, std::optional<Location> loc, Adaptor adaptor,
                                          SmallVectorImpl<Type> &types) {
  if (failed(checkShape(loc, adaptor.getShape())))
    return failure();
  auto type = RankedTensorType::get(adaptor.getShape(), elementOf(adaptor.getOperand()));
  if (elementCount(type) != elementCount(adaptor.getOperand().getType()))
    return emitOptionalError(loc, "cannot reshape ", adaptor.getOperand().getType(), " to ", type,
                             ": the element counts differ");
  types.push_back(type);
  return success();
}
void ReshapeOp::buildGradient(OpBuilder &b, ArrayRef<Value> dy, Results &gradients) {
  gradients.push_back(TapeBuilder(b, getLoc()).reshape(dy[0], shapeOf(getOperand())));
}
// Both shapes fall into groups of dimensions of equal products. A shard may be cut from the outermost dimension of a
// group, or from one that has only extents of 1 before it there.
void ReshapeOp::getPlacementRules(PlacementRules &rules) {
  ArrayRef<int64_t> from = shapeOf(getOperand()), to = getShape();
  size_t i = 0, j = 0;
  while (i < from.size() && j < to.size()) {
    size_t fromBegin = i, toBegin = j;
    int64_t fromProduct = from[i++], toProduct = to[j++];
    while (fromProduct != toProduct)
      if (fromProduct < toProduct)
        fromProduct *= from[i++];
      else
        toProduct *= to[j++];
    for (size_t a = fromBegin; a < i && (a == fromBegin || from[a - 1] == 1); ++a)
      for (size_t b = toBegin; b < j && (b == toBegin || to[b - 1] == 1); ++b)
        rules.push_back({{shard(a)}, {shard(b)}});
  }
  addUniformRule(*this, kPartialSum, rules);
  addUniformRule(*this, kPartialMax, rules);
}
std::optional<StridedAccess> ReshapeOp::getAccess() { return StridedAccess{0, rowMajorStrides(getShape())}; }
OpFoldResult ReshapeOp::fold(FoldAdaptor) {
  if (shapeOf(getOperand()) == getShape())
    return getOperand();
  if (auto source = getOperand().getDefiningOp<ReshapeOp>()) {
    setOperand(source.getOperand());
    return getResult();
  }
  return {};
}

LogicalResult TransposeOp::inferReturnTypes(MLIRContext *, std::optional<Location> loc, Adaptor adaptor,
                                            SmallVectorImpl<Type> &types) {
  ArrayRef<int64_t> shape = shapeOf(adaptor.getOperand());
  if (!isPermutation(adaptor.getPermutation(), shape.size()))
    return emitOptionalError(loc, "[", adaptor.getPermutation(), "] is not a permutation of the operand's dimensions");
  SmallVector<int64_t> result;
  for (int64_t dimension : adaptor.getPermutation())
    result.push_back(shape[dimension]);
  types.push_back(RankedTensorType::get(result, elementOf(adaptor.getOperand())));
  return success();
}
void TransposeOp::buildGradient(OpBuilder &b, ArrayRef<Value> dy, Results &gradients) {
  SmallVector<int64_t> inverse(getPermutation().size());
  for (auto [i, dimension] : llvm::enumerate(getPermutation()))
    inverse[dimension] = i;
  gradients.push_back(TapeBuilder(b, getLoc()).transpose(dy[0], inverse));
}
void TransposeOp::getPlacementRules(PlacementRules &rules) {
  for (auto [result, operand] : llvm::enumerate(getPermutation()))
    rules.push_back({{shard(operand)}, {shard(result)}});
  addUniformRule(*this, kPartialSum, rules);
  addUniformRule(*this, kPartialMax, rules);
}
std::optional<StridedAccess> TransposeOp::getAccess() {
  auto strides = rowMajorStrides(shapeOf(getOperand()));
  StridedAccess access;
  for (int64_t dimension : getPermutation())
    access.strides.push_back(strides[dimension]);
  return access;
}
OpFoldResult TransposeOp::fold(FoldAdaptor) {
  return llvm::is_sorted(getPermutation()) ? OpFoldResult(getOperand()) : OpFoldResult();
}

LogicalResult BroadcastInDimOp::inferReturnTypes(MLIRContext *, std::optional<Location> loc, Adaptor adaptor,
                                                 SmallVectorImpl<Type> &types) {
  ArrayRef<int64_t> operand = shapeOf(adaptor.getOperand()), shape = adaptor.getShape();
  ArrayRef<int64_t> dimensions = adaptor.getBroadcastDimensions();
  if (failed(checkShape(loc, shape)))
    return failure();
  if (dimensions.size() != operand.size())
    return emitOptionalError(loc, "broadcast_dimensions [", dimensions, "] must have one entry per operand dimension");
  for (auto [i, dimension] : llvm::enumerate(dimensions)) {
    if (dimension < 0 || dimension >= static_cast<int64_t>(shape.size()) || (i > 0 && dimension <= dimensions[i - 1]))
      return emitOptionalError(loc, "broadcast_dimensions [", dimensions, "] must ascend and lie in the result's rank");
    if (operand[i] != shape[dimension])
      return emitOptionalError(loc, "cannot broadcast ", adaptor.getOperand().getType(), " to [", shape,
                               "]: extent ", operand[i], " does not match ", shape[dimension]);
  }
  types.push_back(RankedTensorType::get(shape, elementOf(adaptor.getOperand())));
  return success();
}
void BroadcastInDimOp::buildGradient(OpBuilder &b, ArrayRef<Value> dy, Results &gradients) {
  TapeBuilder t(b, getLoc());
  // Runs of repeated dimensions, last first, so that each reduction is over consecutive dimensions.
  Value gradient = dy[0];
  int64_t end = getShape().size();
  while (end > 0) {
    auto isRepeated = [&](int64_t d) { return !llvm::is_contained(getBroadcastDimensions(), d); };
    if (!isRepeated(end - 1)) {
      --end;
      continue;
    }
    int64_t begin = end - 1;
    while (begin > 0 && isRepeated(begin - 1))
      --begin;
    gradient = t.reduce("sum", gradient, llvm::to_vector(llvm::seq<int64_t>(begin, end)));
    end = begin;
  }
  gradients.push_back(gradient);
}
// What is repeated may be repeated on every device: the repetitions are then a shard.
void BroadcastInDimOp::getPlacementRules(PlacementRules &rules) {
  for (auto [operand, result] : llvm::enumerate(getBroadcastDimensions()))
    rules.push_back({{shard(operand)}, {shard(result)}});
  addUniformRule(*this, kPartialSum, rules);
  addUniformRule(*this, kPartialMax, rules);
  for (int64_t d = 0; d < rankOf(getResult()); ++d)
    if (!llvm::is_contained(getBroadcastDimensions(), d))
      rules.push_back({{kReplicate}, {shard(d)}});
}
std::optional<StridedAccess> BroadcastInDimOp::getAccess() {
  auto strides = rowMajorStrides(shapeOf(getOperand()));
  StridedAccess access;
  access.strides.assign(getShape().size(), 0);
  for (auto [i, dimension] : llvm::enumerate(getBroadcastDimensions()))
    access.strides[dimension] = strides[i];
  return access;
}

LogicalResult SliceOp::inferReturnTypes(MLIRContext *, std::optional<Location> loc, Adaptor adaptor,
                                        SmallVectorImpl<Type> &types) {
  ArrayRef<int64_t> operand = shapeOf(adaptor.getOperand()), starts = adaptor.getStarts(), limits = adaptor.getLimits();
  bool fits = starts.size() == operand.size() && limits.size() == operand.size();
  SmallVector<int64_t> shape;
  for (size_t i = 0; fits && i < operand.size(); ++i) {
    fits = starts[i] >= 0 && starts[i] < limits[i] && limits[i] <= operand[i];
    shape.push_back(limits[i] - starts[i]);
  }
  if (!fits)
    return emitOptionalError(loc, "cannot slice ", adaptor.getOperand().getType(), " from [", starts, "] to [", limits, "]");
  types.push_back(RankedTensorType::get(shape, elementOf(adaptor.getOperand())));
  return success();
}
// Zeros around the gradient, dimension by dimension.
void SliceOp::buildGradient(OpBuilder &b, ArrayRef<Value> dy, Results &gradients) {
  TapeBuilder t(b, getLoc());
  Value gradient = dy[0];
  for (int64_t d = rankOf(gradient); d-- > 0;) {
    SmallVector<Value> parts;
    auto addZeros = [&](int64_t extent) {
      SmallVector<int64_t> shape(shapeOf(gradient));
      shape[d] = extent;
      if (extent > 0)
        parts.push_back(t.broadcast(t.constantLike(gradient, 0), shape, {}));
    };
    addZeros(getStarts()[d]);
    parts.push_back(gradient);
    addZeros(shapeOf(getOperand())[d] - getLimits()[d]);
    if (parts.size() > 1)
      gradient = b.create<ConcatenateOp>(getLoc(), parts, d);
  }
  gradients.push_back(gradient);
}
std::optional<StridedAccess> SliceOp::getAccess() {
  StridedAccess access{0, rowMajorStrides(shapeOf(getOperand()))};
  for (auto [start, stride] : llvm::zip(getStarts(), access.strides))
    access.offset += start * stride;
  return access;
}
// By the dimensions that are kept whole.
void SliceOp::setResultShape(ArrayRef<int64_t> shape) {
  SmallVector<int64_t> limits(shape);
  for (auto [limit, start] : llvm::zip_equal(limits, getStarts()))
    limit += start;
  setLimits(limits);
}
void SliceOp::getPlacementRules(PlacementRules &rules) {
  ArrayRef<int64_t> operand = shapeOf(getOperand()), result = shapeOf(getResult());
  for (int64_t d = 0; d < rankOf(getResult()); ++d)
    if (operand[d] == result[d])
      addUniformRule(*this, shard(d), rules);
  addUniformRule(*this, kPartialSum, rules);
  addUniformRule(*this, kPartialMax, rules);
}
OpFoldResult SliceOp::fold(FoldAdaptor) {
  return getType() == getOperand().getType() ? OpFoldResult(getOperand()) : OpFoldResult();
}

LogicalResult HyperparameterOp::inferReturnTypes(MLIRContext *context, std::optional<Location> loc, Adaptor adaptor,
                                                 SmallVectorImpl<Type> &types) {
  int64_t field = adaptor.getField(), length = shapeOf(adaptor.getConfig()).front();
  if (field < 0 || field >= length || field >= static_cast<int64_t>(kHyperparameterCount))
    return emitOptionalError(loc, "there is no hyperparameter ", field, " in ", adaptor.getConfig().getType());
  types.push_back(RankedTensorType::get({}, Float64Type::get(context)));
  return success();
}
std::optional<StridedAccess> HyperparameterOp::getAccess() {
  return StridedAccess{static_cast<int64_t>(getField()), {}};
}

void HyperparameterOp::getPlacementRules(PlacementRules &) {}

//===- split, concatenate ---------------------------------------------------------------------------------------------===//

LogicalResult SplitOp::inferReturnTypes(MLIRContext *, std::optional<Location> loc, Adaptor adaptor,
                                        SmallVectorImpl<Type> &types) {
  SmallVector<int64_t> shape(shapeOf(adaptor.getOperand()));
  int64_t dimension = adaptor.getDimension(), count = adaptor.getCount();
  if (dimension < 0 || dimension >= static_cast<int64_t>(shape.size()) || count < 1 || shape[dimension] % count != 0)
    return emitOptionalError(loc, "cannot split dimension ", dimension, " of ", adaptor.getOperand().getType(), " into ",
                             count, " equal parts");
  shape[dimension] /= count;
  types.assign(count, RankedTensorType::get(shape, elementOf(adaptor.getOperand())));
  return success();
}
void SplitOp::buildGradient(OpBuilder &b, ArrayRef<Value> dy, Results &gradients) {
  TapeBuilder t(b, getLoc());
  SmallVector<Value> parts(dy);
  for (auto [part, result] : llvm::zip(parts, getResults()))
    if (!part)
      part = t.broadcast(t.constantLike(result, 0), shapeOf(result), {});
  gradients.push_back(b.create<ConcatenateOp>(getLoc(), parts, getDimension()));
}

void SplitOp::decompose(OpBuilder &b, Results &results) {
  TapeBuilder t(b, getLoc());
  SmallVector<int64_t> starts(rankOf(getOperand()), 0), limits(shapeOf(getOperand()));
  for (Value part : getResults()) {
    limits[getDimension()] = starts[getDimension()] + shapeOf(part)[getDimension()];
    results.push_back(t.slice(getOperand(), starts, limits));
    starts[getDimension()] = limits[getDimension()];
  }
}

LogicalResult ConcatenateOp::inferReturnTypes(MLIRContext *, std::optional<Location> loc, Adaptor adaptor,
                                              SmallVectorImpl<Type> &types) {
  ValueRange operands = adaptor.getOperands();
  int64_t dimension = adaptor.getDimension();
  if (operands.empty() || dimension < 0 || dimension >= rankOf(operands.front()))
    return emitOptionalError(loc, "concatenate needs operands and a dimension of theirs");
  SmallVector<int64_t> shape(shapeOf(operands.front()));
  for (Value operand : operands.drop_front()) {
    ArrayRef<int64_t> other = shapeOf(operand);
    bool agrees = other.size() == shape.size() && elementOf(operand) == elementOf(operands.front());
    for (int64_t d = 0; agrees && d < int64_t(shape.size()); ++d)
      agrees = d == dimension || other[d] == shape[d];
    if (!agrees)
      return emitOptionalError(loc, "cannot concatenate ", operands.front().getType(), " and ", operand.getType(),
                               " along dimension ", dimension);
    shape[dimension] += other[dimension];
  }
  if (failed(checkShape(loc, shape)))
    return failure();
  types.push_back(RankedTensorType::get(shape, elementOf(operands.front())));
  return success();
}
void ConcatenateOp::buildGradient(OpBuilder &b, ArrayRef<Value> dy, Results &gradients) {
  SmallVector<int64_t> starts(rankOf(dy[0]), 0), limits(shapeOf(dy[0]));
  int64_t dimension = getDimension();
  for (Value operand : getOperands()) {
    limits[dimension] = starts[dimension] + shapeOf(operand)[dimension];
    gradients.push_back(b.create<SliceOp>(getLoc(), dy[0], starts, limits));
    starts[dimension] = limits[dimension];
  }
}

static void addAllButOne(Operation *op, int64_t rank, int64_t dimension, PlacementRules &rules) {
  for (int64_t d = 0; d < rank; ++d)
    if (d != dimension)
      addUniformRule(op, shard(d), rules);
  addUniformRule(op, kPartialSum, rules);
  addUniformRule(op, kPartialMax, rules);
}
void SplitOp::getPlacementRules(PlacementRules &rules) {
  addAllButOne(*this, rankOf(getOperand()), getDimension(), rules);
}
void ConcatenateOp::getPlacementRules(PlacementRules &rules) {
  addAllButOne(*this, rankOf(getResult()), getDimension(), rules);
}

} // namespace tapeout::tape
