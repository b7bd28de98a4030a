#include "ir/tape/Reduction.h"

#include "ir/tape/Elementwise.h"
#include "ir/tape/Scalars.h"
#include "ir/tape/Shape.h"
#include "ir/tape/TapeBuilder.h"
#include "ir/tape/Target.h"

#include "mlir/IR/PatternMatch.h"

#define GET_OP_CLASSES
#include "ir/tape/Reduction.cpp.inc"

using namespace mlir;

namespace tapeout::tape {

void registerReductionOps(TapeDialect &dialect) {
  addOps<
#define GET_OP_LIST
#include "ir/tape/Reduction.cpp.inc"
      >(dialect);
}

bool reducesRows(ReduceOp op) {
  return llvm::all_of(shapeOf(op.getOperand()).drop_front(op.getDimensions().back() + 1), [](int64_t extent) { return extent == 1; });
}

static constexpr int64_t kLeastBands = 128;

std::optional<Bands> bandsOf(ReduceOp op) {
  constexpr int64_t kLeastColumns = 64, kMostColumns = 4096; // four rows take a warp at least, and a block at most
  Bands result{1, 1, 1};
  for (auto [d, extent] : llvm::enumerate(shapeOf(op.getOperand()))) {
    int64_t dimension = d;
    bool isBefore = dimension < op.getDimensions().front(), isBehind = dimension > op.getDimensions().back();
    (isBefore ? result.bands : isBehind ? result.columns : result.rows) *= extent;
  }
  bool fits = result.bands >= kLeastBands && result.rows % kBandSlots == 0 && result.columns >= kLeastColumns &&
              result.columns <= kMostColumns;
  return fits ? std::optional(result) : std::nullopt;
}

bool sumsParts(ReduceOp op) {
  constexpr int64_t kLeast = 32, kMostColumns = 127 * 128, kVector = 4; // more have another schedule, and order
  ArrayRef<int64_t> shape = shapeOf(op.getOperand());
  return op.getKind() == "sum" && elementOf(op.getOperand()).isF32() && shape.size() == 2 &&
         op.getDimensions() == ArrayRef<int64_t>{0} && shape[0] >= kLeast && shape[1] >= kLeast && shape[1] <= kMostColumns && shape[1] % kVector == 0;
}

LogicalResult ReduceOp::inferReturnTypes(MLIRContext *, std::optional<Location> loc, Adaptor adaptor,
                                         SmallVectorImpl<Type> &types) {
  ArrayRef<int64_t> shape = shapeOf(adaptor.getOperand()), dimensions = adaptor.getDimensions();
  bool consecutive = !dimensions.empty() && dimensions.front() >= 0 && dimensions.back() < int64_t(shape.size());
  for (size_t i = 1; i < dimensions.size(); ++i)
    consecutive &= dimensions[i] == dimensions[i - 1] + 1;
  if (!consecutive)
    return emitOptionalError(loc, "reduce needs consecutive dimensions of ", adaptor.getOperand().getType(), ", not [",
                             dimensions, "]");
  SmallVector<int64_t> result(shape.take_front(dimensions.front()));
  llvm::append_range(result, shape.drop_front(dimensions.back() + 1));
  types.push_back(RankedTensorType::get(result, elementOf(adaptor.getOperand())));
  return success();
}

void ReduceOp::buildScalarBody(OpBuilder &b, Location loc, ValueRange args, Value, SmallVectorImpl<Value> &results) {
  ScalarBuilder s(b, loc);
  results.push_back(getKind() == "sum" ? s.add(args[0], args[1]) : s.max(args[0], args[1]));
}

void ReduceOp::buildGradient(OpBuilder &b, ArrayRef<Value> dy, SmallVectorImpl<Value> &gradients) {
  if (getKind() != "sum") {
    gradients.push_back(Value());
    return;
  }
  SmallVector<int64_t> kept;
  for (int64_t d = 0; d < rankOf(getOperand()); ++d)
    if (!llvm::is_contained(getDimensions(), d))
      kept.push_back(d);
  gradients.push_back(TapeBuilder(b, getLoc()).broadcast(dy[0], shapeOf(getOperand()), kept));
}

uint64_t ReduceOp::getFlops() { return elementCount(getOperand().getType()); }

// The parts of a long reduction to one value: its largest divisor that leaves parts of 4,096 elements or more.
static int64_t partsOf(int64_t elements) {
  for (int64_t parts = std::min<int64_t>(elements / 4096, 256); parts > 1; --parts)
    if (elements % parts == 0)
      return parts;
  return 1;
}

// Whether a kernel of the value would read a slice.
static bool isBehindSlice(Value value) {
  while (Operation *op = value.getDefiningOp()) {
    if (isa<SliceOp>(op))
      return true;
    if (!isa<ReshapeOp, TransposeOp, ConvertOp>(op))
      return false;
    value = op->getOperand(0);
  }
  return false;
}

// The parts of long columns: as many as keep the blocks of a large device busy, but few against the rows. Parts that are bands
// (bandsOf) can be summed by a kernel that computes the rows. They begin and end where runs of `run` rows do, or divide these.
static int64_t columnPartsOf(int64_t rows, int64_t columns, int64_t most, int64_t run) {
  constexpr int64_t kMostElements = int64_t(1) << 20, kLong = 1024, kLeastRows = 16;
  if (rows < kLong)
    return 1;
  int64_t largest = 1;
  for (int64_t parts = std::min({most, rows / kLeastRows, kMostElements / columns}); parts > 1; --parts)
    if (int64_t part = rows / parts; rows % parts == 0 && (part % run == 0 || run % part == 0)) {
      if (parts >= kLeastBands && rows / parts % kBandSlots == 0)
        return parts;
      largest = std::max(largest, parts);
    }
  return largest;
}

// A reduction of everything to one value, or of long columns, becomes two, so that threads can share the first.
void ReduceOp::decompose(OpBuilder &b, SmallVectorImpl<Value> &results) {
  TapeBuilder t(b, getLoc());
  int64_t elements = elementCount(getOperand().getType());
  if (!reducesRows(*this)) {
    int64_t columns = elementCount(getResult().getType()), rows = elements / columns, first = getDimensions().front();
    // Rows of a slice are evenly spaced along its last dimension only.
    int64_t run = isBehindSlice(getOperand()) ? shapeOf(getOperand())[getDimensions().back()] : 1;
    int64_t parts = columnPartsOf(rows, columns, targetOf(*this).columnReductionParts, run);
    if (parts == 1)
      return;
    SmallVector<int64_t> shape(shapeOf(getOperand()).take_front(first));
    shape.append({parts, rows / parts});
    llvm::append_range(shape, shapeOf(getOperand()).drop_front(getDimensions().back() + 1));
    results.push_back(t.reduce(getKind(), t.reduce(getKind(), t.reshape(getOperand(), shape), {first + 1}), {first}));
    return;
  }
  if (rankOf(getResult()) != 0 || partsOf(elements) == 1)
    return;
  Value rows = t.reshape(getOperand(), {partsOf(elements), elements / partsOf(elements)});
  results.push_back(t.reduceLast(getKind(), t.reduceLast(getKind(), rows)));
}

void ReduceOp::getPlacementRules(PlacementRules &rules) {
  AxisPlacement partial = getKind() == "sum" ? kPartialSum : kPartialMax;
  int64_t kept = 0;
  for (int64_t d = 0; d < rankOf(getOperand()); ++d)
    rules.push_back({{shard(d)}, {llvm::is_contained(getDimensions(), d) ? partial : shard(kept++)}});
  addUniformRule(*this, partial, rules);
}

//===- sum_of_squares -----------------------------------------------------------------------------------------------------===//

static LogicalResult inferSumOfSquares(std::optional<Location> loc, ValueRange operands, ArrayRef<int64_t> shape,
                                       SmallVectorImpl<Type> &types) {
  if (operands.empty())
    return emitOptionalError(loc, "a sum of squares needs an operand");
  Type element = elementOf(operands.front());
  types.push_back(RankedTensorType::get(shape, element.isF64() ? element : Float32Type::get(element.getContext())));
  return success();
}

LogicalResult SumOfSquaresOp::inferReturnTypes(MLIRContext *, std::optional<Location> loc, Adaptor adaptor,
                                               SmallVectorImpl<Type> &types) {
  return inferSumOfSquares(loc, adaptor.getTensors(), {}, types);
}
// Tensors that are all multiplied by one number are scaled as they are read.
LogicalResult SumOfSquaresOp::canonicalize(SumOfSquaresOp op, PatternRewriter &rewriter) {
  SmallVector<Value> tensors;
  Value scale = op.getScale();
  if (scale)
    return failure();
  for (Value tensor : op.getTensors()) {
    auto product = tensor.getDefiningOp<MultiplyOp>();
    bool scaled = product && rankOf(product.getLhs()) > 0 && rankOf(product.getRhs()) == 0 &&
                  elementOf(product.getLhs()) == elementOf(product.getRhs());
    if (!scaled || (scale && scale != product.getRhs()))
      return failure();
    scale = product.getRhs();
    tensors.push_back(product.getLhs());
  }
  auto scaled = rewriter.create<SumOfSquaresOp>(op.getLoc(), tensors, scale);
  scaled->setDiscardableAttrs(op->getDiscardableAttrDictionary());
  rewriter.replaceOp(op, scaled);
  return success();
}
void SumOfSquaresOp::decompose(OpBuilder &b, SmallVectorImpl<Value> &results) {
  Value parts = b.create<SumOfSquaresPartsOp>(getLoc(), getTensors(), getScale());
  results.push_back(TapeBuilder(b, getLoc()).reduceAll("sum", parts));
}
// Cut operands count each element once only where all are cut.
void SumOfSquaresOp::getPlacementRules(PlacementRules &rules) {
  if (llvm::any_of(getTensors(), [](Value tensor) { return rankOf(tensor) == 0; }))
    return;
  addUniformRule(*this, shard(0), rules);
  if (getScale())
    rules.back().operands.back() = kReplicate;
  rules.back().results = {kPartialSum};
}

LogicalResult SumOfSquaresPartsOp::inferReturnTypes(MLIRContext *, std::optional<Location> loc, Adaptor adaptor,
                                                    SmallVectorImpl<Type> &types) {
  int64_t parts = 0;
  for (Value tensor : adaptor.getTensors())
    parts += (elementCount(tensor.getType()) + kPart - 1) / kPart;
  return inferSumOfSquares(loc, adaptor.getTensors(), {parts}, types);
}
uint64_t SumOfSquaresPartsOp::getFlops() {
  uint64_t elements = 0;
  for (Value tensor : getTensors())
    elements += elementCount(tensor.getType());
  return 2 * elements;
}
// Where parts begin depends on the shapes: nothing to share out.
void SumOfSquaresPartsOp::getPlacementRules(PlacementRules &) {}

} // namespace tapeout::tape
