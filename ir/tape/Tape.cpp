#include "ir/tape/Tape.h"

#include "ir/tape/Attention.h"
#include "ir/tape/BatchNorm.h"
#include "ir/tape/Convolution.h"
#include "ir/tape/Elementwise.h"
#include "ir/tape/Embedding.h"
#include "ir/tape/Fusion.h"
#include "ir/tape/Loss.h"
#include "ir/tape/MatMul.h"
#include "ir/tape/Normalization.h"
#include "ir/tape/Optimizer.h"
#include "ir/tape/Pooling.h"
#include "ir/tape/ProductKernels.h"
#include "ir/tape/Random.h"
#include "ir/tape/Reduction.h"
#include "ir/tape/Rotary.h"
#include "ir/tape/Shape.h"

#include "ir/tape/Dialect.cpp.inc"
#include "ir/tape/Interfaces.cpp.inc"

using namespace mlir;

namespace tapeout::tape {

void TapeDialect::initialize() {
  registerAttributes();
  registerElementwiseOps(*this);
  registerShapeOps(*this);
  registerReductionOps(*this);
  registerMatMulOps(*this);
  registerConvolutionOps(*this);
  registerPoolingOps(*this);
  registerNormalizationOps(*this);
  registerBatchNormOps(*this);
  registerAttentionOps(*this);
  registerProductKernelsOps(*this);
  registerEmbeddingOps(*this);
  registerLossOps(*this);
  registerRandomOps(*this);
  registerRotaryOps(*this);
  registerOptimizerOps(*this);
  registerFusionOps(*this);
}

llvm::StringRef stringify(AmpClass amp) {
  switch (amp) {
  case AmpClass::Always:
    return "always";
  case AmpClass::Follow:
    return "follow";
  case AmpClass::Never:
    return "never";
  case AmpClass::Inside:
    return "inside";
  }
  llvm_unreachable("AmpClass");
}

llvm::StringRef stringify(FusionKind kind) {
  switch (kind) {
  case FusionKind::Elementwise:
    return "elementwise";
  case FusionKind::Reduction:
    return "reduction";
  case FusionKind::Injective:
    return "injective";
  case FusionKind::Opaque:
    return "opaque";
  case FusionKind::Barrier:
    return "barrier";
  }
  llvm_unreachable("FusionKind");
}

uint64_t elementCount(Type type) { return cast<RankedTensorType>(type).getNumElements(); }

unsigned elementBytes(Type elementType) { return (elementType.getIntOrFloatBitWidth() + 7) / 8; }

uint64_t totalBytes(TypeRange types) {
  uint64_t bytes = 0;
  for (Type type : types)
    bytes += elementCount(type) * elementBytes(cast<RankedTensorType>(type).getElementType());
  return bytes;
}

bool isLowPrecision(Type elementType) { return elementType.isBF16() || elementType.isF16(); }
Type computeType(Type elementType) {
  return isLowPrecision(elementType) ? Float32Type::get(elementType.getContext()) : elementType;
}

ArrayRef<int64_t> shapeOf(Value value) { return cast<RankedTensorType>(value.getType()).getShape(); }
int64_t rankOf(Value value) { return cast<RankedTensorType>(value.getType()).getRank(); }
Type elementOf(Value value) { return cast<RankedTensorType>(value.getType()).getElementType(); }

SmallVector<int64_t, 6> rowMajorStrides(ArrayRef<int64_t> shape) {
  SmallVector<int64_t, 6> strides(shape.size(), 1);
  for (size_t i = shape.size(); i-- > 1;)
    strides[i - 1] = strides[i] * shape[i];
  return strides;
}

StringRef layerName(Location loc) {
  if (auto name = dyn_cast<NameLoc>(loc))
    return name.getName();
  if (auto fused = dyn_cast<FusedLoc>(loc))
    for (Location part : fused.getLocations())
      if (StringRef name = layerName(part); !name.empty())
        return name;
  return "";
}

Value detail::leadingOperand(ValueRange operands) {
  auto leading = llvm::find_if(operands, [](Value operand) { return rankOf(operand) != 0; });
  return leading == operands.end() ? operands.front() : *leading;
}

LogicalResult detail::inferElementwise(std::optional<Location> loc, ValueRange operands, Type elementType, Type &result) {
  ArrayRef<int64_t> shape = operands.empty() ? ArrayRef<int64_t>() : shapeOf(leadingOperand(operands));
  for (Value operand : operands)
    if (rankOf(operand) != 0 && shapeOf(operand) != shape)
      return emitOptionalError(loc, "operands have different shapes: ", operands.front().getType(), " and ",
                               operand.getType(), "; broadcast one of them first");
  result = RankedTensorType::get(shape, elementType);
  return success();
}

LogicalResult detail::verifyElementwiseShapes(Operation *op) {
  for (Value result : op->getResults())
    for (Value operand : op->getOperands())
      if (rankOf(operand) != 0 && shapeOf(operand) != shapeOf(result))
        return op->emitOpError("operand ") << operand.getType() << " has neither the result's shape nor rank 0";
  return success();
}

//===- placement ------------------------------------------------------------------------------------------------------===//

void addUniformRule(Operation *op, AxisPlacement placement, PlacementRules &rules) {
  PlacementRule &rule = rules.emplace_back();
  rule.operands.assign(op->getNumOperands(), placement);
  rule.results.assign(op->getNumResults(), placement);
}

void addRowRules(Operation *op, int64_t rows, ArrayRef<unsigned> replicatedOperands, PlacementRules &rules) {
  for (int64_t d = 0; d < rows; ++d) {
    addUniformRule(op, shard(d), rules);
    for (unsigned operand : replicatedOperands)
      rules.back().operands[operand] = kReplicate;
  }
}

void addLinearRule(Operation *op, unsigned operand, PlacementRules &rules) {
  addUniformRule(op, kReplicate, rules);
  rules.back().operands[operand] = kPartialSum;
  rules.back().results.assign(op->getNumResults(), kPartialSum);
}

void detail::addElementwisePlacements(Operation *op, ArrayRef<unsigned> linearOperandSets, PlacementRules &rules) {
  SmallVector<unsigned> scalars;
  for (auto [i, operand] : llvm::enumerate(op->getOperands()))
    if (rankOf(operand) == 0)
      scalars.push_back(i);
  addRowRules(op, rankOf(op->getResult(0)), scalars, rules);
  if (!isa<FloatType>(elementOf(op->getResult(0)))) // integer division is not linear
    return;
  for (unsigned set : linearOperandSets) {
    addUniformRule(op, kPartialSum, rules);
    for (unsigned i = 0; i < op->getNumOperands(); ++i)
      if (!(set >> i & 1))
        rules.back().operands[i] = kReplicate;
  }
}

} // namespace tapeout::tape
