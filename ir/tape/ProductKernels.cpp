#include "ir/tape/ProductKernels.h"

#define GET_OP_CLASSES
#include "ir/tape/ProductKernels.cpp.inc"

using namespace mlir;

namespace tapeout::tape {

void registerProductKernelsOps(TapeDialect &dialect) {
  addOps<
#define GET_OP_LIST
#include "ir/tape/ProductKernels.cpp.inc"
      >(dialect);
}

std::optional<ProductSizes> productKernelSizes(Value operand, Value weight, int64_t summed) {
  if (rankOf(operand) < 1 || rankOf(weight) != 2 || (summed != 0 && summed != 1))
    return std::nullopt;
  ProductSizes sizes{int64_t(elementCount(operand.getType())), shapeOf(weight)[1 - summed], shapeOf(operand).back()};
  constexpr int64_t kMost = int64_t(1) << 30; // the kernels count in 32 bits
  if (sizes.rows == 0 || sizes.features == 0 || sizes.depth > kMost || sizes.features > kMost)
    return std::nullopt;
  sizes.rows /= sizes.depth;
  bool fits = isLowPrecision(elementOf(operand)) && elementOf(weight) == elementOf(operand) &&
              shapeOf(weight)[summed] == sizes.depth && sizes.depth % kProductDepth == 0 &&
              sizes.features % kProductFeatures == 0 && sizes.rows <= kMost;
  return fits ? std::optional(sizes) : std::nullopt;
}

namespace {
RankedTensorType resultOf(Value operand, int64_t features) {
  SmallVector<int64_t> shape(shapeOf(operand));
  shape.back() = features;
  return RankedTensorType::get(shape, elementOf(operand));
}

LogicalResult noKernel(std::optional<Location> loc, StringRef op) {
  return emitOptionalError(loc, op, " has no kernel for these operands: 16-bit elements, multiples of ", kProductDepth,
                           " summed and of ", kProductFeatures, " features");
}

uint64_t flopsOf(Value operand, Value weight, int64_t summed, uint64_t perResult) {
  std::optional<ProductSizes> sizes = productKernelSizes(operand, weight, summed);
  return sizes ? uint64_t(sizes->rows) * sizes->features * (2 * sizes->depth + perResult) : 0;
}
} // namespace

LogicalResult GeluProductOp::inferReturnTypes(MLIRContext *, std::optional<Location> loc, Adaptor adaptor,
                                              SmallVectorImpl<Type> &types) {
  auto sizes = productKernelSizes(adaptor.getOperand(), adaptor.getWeight(), adaptor.getSummed());
  if (!sizes ||
      adaptor.getBias().getType() != RankedTensorType::get({sizes->features}, elementOf(adaptor.getOperand())))
    return noKernel(loc, "gelu_product");
  types.append(2, resultOf(adaptor.getOperand(), sizes->features));
  return success();
}

LogicalResult ScaledProductOp::inferReturnTypes(MLIRContext *, std::optional<Location> loc, Adaptor adaptor,
                                                SmallVectorImpl<Type> &types) {
  auto sizes = productKernelSizes(adaptor.getOperand(), adaptor.getWeight(), adaptor.getSummed());
  if (!sizes || adaptor.getScale().getType() != resultOf(adaptor.getOperand(), sizes->features))
    return noKernel(loc, "scaled_product");
  int64_t tiles = llvm::divideCeil(sizes->rows, kProductRows);
  types.push_back(adaptor.getScale().getType());
  types.push_back(RankedTensorType::get({tiles, sizes->features}, computeType(elementOf(adaptor.getOperand()))));
  return success();
}

uint64_t GeluProductOp::getFlops() { return flopsOf(getOperand(), getWeight(), getSummed(), 20); }
uint64_t ScaledProductOp::getFlops() { return flopsOf(getOperand(), getWeight(), getSummed(), 2); }

// By rows or by features; parts of what is summed over would have to be added before GELU.
void GeluProductOp::getPlacementRules(PlacementRules &rules) {
  int64_t rank = rankOf(getOperand());
  for (int64_t d = 0; d < rank - 1; ++d)
    rules.push_back({{shard(d), kReplicate, kReplicate}, {shard(d), shard(d)}});
  rules.push_back({{kReplicate, shard(1 - getSummed()), shard(0)}, {shard(rank - 1), shard(rank - 1)}});
}
// Tiles of rows are not those of the rows' parts.
void ScaledProductOp::getPlacementRules(PlacementRules &rules) {
  int64_t last = rankOf(getOperand()) - 1;
  rules.push_back({{kReplicate, shard(1 - getSummed()), shard(last)}, {shard(last), shard(1)}});
}

} // namespace tapeout::tape
