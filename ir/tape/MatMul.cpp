#include "ir/tape/MatMul.h"

#include "ir/tape/TapeBuilder.h"
#include "ir/tape/Target.h"

#define GET_OP_CLASSES
#include "ir/tape/MatMul.cpp.inc"

using namespace mlir;

namespace tapeout::tape {

void registerMatMulOps(TapeDialect &dialect) {
  addOps<
#define GET_OP_LIST
#include "ir/tape/MatMul.cpp.inc"
      >(dialect);
}

namespace {
using Ints = ArrayRef<int64_t>;

bool areDimensions(Ints batch, Ints contract, int64_t rank) {
  SmallVector<bool> seen(rank, false);
  for (Ints list : {batch, contract})
    for (int64_t d : list) {
      if (d < 0 || d >= rank || seen[d])
        return false;
      seen[d] = true;
    }
  return true;
}

SmallVector<int64_t> freeDimensions(int64_t rank, Ints batch, Ints contract) {
  SmallVector<int64_t> result;
  for (int64_t d = 0; d < rank; ++d)
    if (!llvm::is_contained(batch, d) && !llvm::is_contained(contract, d))
      result.push_back(d);
  return result;
}

// The gradient of one operand: dy times the other operand, contracted over the other's free dimensions. The product has
// dimensions [batch, own free, own contracted], which a transpose puts back into the operand's order.
Value operandGradient(TapeBuilder &t, Value dy, Value own, Value other, Ints ownBatch, Ints otherBatch, Ints ownContract,
                      Ints otherContract, bool ownIsLhs) {
  int64_t batches = ownBatch.size();
  SmallVector<int64_t> ownFree = freeDimensions(rankOf(own), ownBatch, ownContract);
  SmallVector<int64_t> otherFree = freeDimensions(rankOf(other), otherBatch, otherContract);
  SmallVector<int64_t> dyBatch = llvm::to_vector(llvm::seq<int64_t>(0, batches));
  int64_t otherStart = batches + (ownIsLhs ? int64_t(ownFree.size()) : 0);
  SmallVector<int64_t> dyContract = llvm::to_vector(llvm::seq<int64_t>(otherStart, otherStart + otherFree.size()));
  Value product = t.dot(dy, other, dyBatch, otherBatch, dyContract, otherFree);

  // The other's contracted dimensions come out in ascending order; pair each with the own dimension it belongs to.
  SmallVector<std::pair<int64_t, int64_t>> pairs;
  for (auto [ownDim, otherDim] : llvm::zip(ownContract, otherContract))
    pairs.push_back({otherDim, ownDim});
  llvm::sort(pairs);
  SmallVector<int64_t> productOrder(ownBatch);
  llvm::append_range(productOrder, ownFree);
  for (auto &pair : pairs)
    productOrder.push_back(pair.second);
  SmallVector<int64_t> permutation(productOrder.size());
  for (auto [position, dimension] : llvm::enumerate(productOrder))
    permutation[dimension] = position;
  return t.transpose(product, permutation);
}
} // namespace

LogicalResult DotGeneralOp::inferReturnTypes(MLIRContext *, std::optional<Location> loc, Adaptor adaptor,
                                             SmallVectorImpl<Type> &types) {
  Ints lhs = shapeOf(adaptor.getLhs()), rhs = shapeOf(adaptor.getRhs());
  Ints lhsBatch = adaptor.getLhsBatch(), rhsBatch = adaptor.getRhsBatch();
  Ints lhsContract = adaptor.getLhsContract(), rhsContract = adaptor.getRhsContract();
  if (!areDimensions(lhsBatch, lhsContract, lhs.size()) || !areDimensions(rhsBatch, rhsContract, rhs.size()) ||
      lhsBatch.size() != rhsBatch.size() || lhsContract.size() != rhsContract.size())
    return emitOptionalError(loc, "dot_general needs distinct dimensions, as many of lhs as of rhs");
  auto differ = [&](Ints lhsDims, Ints rhsDims) {
    return llvm::any_of(llvm::zip(lhsDims, rhsDims), [&](auto pair) { return lhs[std::get<0>(pair)] != rhs[std::get<1>(pair)]; });
  };
  if (differ(lhsBatch, rhsBatch) || differ(lhsContract, rhsContract))
    return emitOptionalError(loc, "dot_general of ", adaptor.getLhs().getType(), " and ", adaptor.getRhs().getType(),
                             ": paired dimensions have different extents");
  if (elementOf(adaptor.getLhs()) != elementOf(adaptor.getRhs()))
    return emitOptionalError(loc, "dot_general needs operands of one element type");
  SmallVector<int64_t> shape;
  for (int64_t d : lhsBatch)
    shape.push_back(lhs[d]);
  for (int64_t d : freeDimensions(lhs.size(), lhsBatch, lhsContract))
    shape.push_back(lhs[d]);
  for (int64_t d : freeDimensions(rhs.size(), rhsBatch, rhsContract))
    shape.push_back(rhs[d]);
  Type operand = elementOf(adaptor.getLhs()), result = adaptor.getElementType().value_or(operand);
  if (result != operand && result != computeType(operand))
    return emitOptionalError(loc, "dot_general of ", operand, " cannot give ", result);
  auto type = RankedTensorType::get(shape, result);
  if (adaptor.getAddend() && adaptor.getAddend().getType() != type)
    return emitOptionalError(loc, "dot_general adds ", adaptor.getAddend().getType(), " to ", type);
  types.push_back(type);
  return success();
}

void DotGeneralOp::buildGradient(OpBuilder &b, ArrayRef<Value> dy, SmallVectorImpl<Value> &gradients) {
  TapeBuilder t(b, getLoc());
  gradients.push_back(operandGradient(t, dy[0], getLhs(), getRhs(), getLhsBatch(), getRhsBatch(), getLhsContract(),
                                      getRhsContract(), /*ownIsLhs=*/true));
  // Contracting dy's lhs part with lhs puts rhs's free dimensions first when dy is the left operand: the same formula.
  gradients.push_back(operandGradient(t, dy[0], getRhs(), getLhs(), getRhsBatch(), getLhsBatch(), getRhsContract(),
                                      getLhsContract(), /*ownIsLhs=*/false));
  if (getAddend())
    gradients.push_back(dy[0]);
}

void DotGeneralOp::widenResult() {
  Type wide = computeType(elementOf(getLhs()));
  setElementType(wide);
  getResult().setType(RankedTensorType::get(shapeOf(getResult()), wide));
}

uint64_t DotGeneralOp::getFlops() {
  uint64_t flops = 2 * elementCount(getResult().getType());
  for (int64_t d : getLhsContract())
    flops *= shapeOf(getLhs())[d];
  if (!getTriangle())
    return flops;
  uint64_t tokens = *getTriangle() == "result" ? shapeOf(getResult()).back() : shapeOf(getLhs())[getLhsContract().back()];
  return flops / (2 * tokens) * (tokens + 1);
}

namespace {
struct Collapsed {
  int64_t extent = 1, stride = 1;
};

// Several dimensions, in order, as one with one stride.
std::optional<Collapsed> collapse(Ints extents, Ints strides) {
  Collapsed result;
  for (size_t i = extents.size(); i-- > 0;) {
    if (extents[i] == 1)
      continue;
    if (result.extent == 1)
      result.stride = strides[i];
    else if (strides[i] != result.stride * result.extent)
      return std::nullopt;
    result.extent *= extents[i];
  }
  return result;
}

SmallVector<int64_t> pick(Ints values, Ints dimensions) {
  SmallVector<int64_t> result;
  for (int64_t d : dimensions)
    result.push_back(values[d]);
  return result;
}

// Free dimensions of one operand: the innermost run that is one stride in the operand and in the result stays, the others
// become batches.
struct FreeDimensions {
  Collapsed operand;
  int64_t resultStride = 1;
  SmallVector<StridedMatmul::Batch> outer; // `lhs` holds the operand's stride
};

FreeDimensions splitFree(Ints extents, Ints operandStrides, Ints resultStrides) {
  FreeDimensions result;
  size_t begin = extents.size();
  while (begin > 0 && collapse(extents.drop_front(begin - 1), operandStrides.drop_front(begin - 1)) &&
         collapse(extents.drop_front(begin - 1), resultStrides.drop_front(begin - 1)))
    --begin;
  result.operand = *collapse(extents.drop_front(begin), operandStrides.drop_front(begin));
  result.resultStride = collapse(extents.drop_front(begin), resultStrides.drop_front(begin))->stride;
  for (size_t i = 0; i < begin; ++i)
    result.outer.push_back({extents[i], operandStrides[i], 0, resultStrides[i]});
  return result;
}
} // namespace

std::optional<StridedMatmul> asStridedMatmul(DotGeneralOp op) {
  return asStridedMatmul(op, rowMajorStrides(shapeOf(op.getLhs())), rowMajorStrides(shapeOf(op.getRhs())),
                         rowMajorStrides(shapeOf(op.getResult())));
}

std::optional<StridedMatmul> asStridedMatmul(DotGeneralOp op, Ints lhsStrides, Ints rhsStrides, Ints resultStrides) {
  Ints lhs = shapeOf(op.getLhs()), rhs = shapeOf(op.getRhs());
  auto lhsK = collapse(pick(lhs, op.getLhsContract()), pick(lhsStrides, op.getLhsContract()));
  auto rhsK = collapse(pick(rhs, op.getRhsContract()), pick(rhsStrides, op.getRhsContract()));
  if (!lhsK || !rhsK)
    return std::nullopt;

  SmallVector<int64_t> lhsFree = freeDimensions(lhs.size(), op.getLhsBatch(), op.getLhsContract());
  SmallVector<int64_t> rhsFree = freeDimensions(rhs.size(), op.getRhsBatch(), op.getRhsContract());
  size_t batches = op.getLhsBatch().size();
  Ints result = resultStrides;
  FreeDimensions m = splitFree(pick(lhs, lhsFree), pick(lhsStrides, lhsFree), result.slice(batches, lhsFree.size()));
  FreeDimensions n = splitFree(pick(rhs, rhsFree), pick(rhsStrides, rhsFree), result.drop_front(batches + lhsFree.size()));

  StridedMatmul matmul{m.operand.extent, n.operand.extent, lhsK->extent,   m.operand.stride, lhsK->stride,
                       rhsK->stride,     n.operand.stride, m.resultStride, n.resultStride,   {}, {}};
  StringRef triangle = op.getTriangle().value_or("");
  if (!triangle.empty() && matmul.m == (triangle == "result" ? matmul.n : matmul.k))
    matmul.triangle = triangle;
  for (size_t i = 0; i < batches; ++i)
    matmul.batch.push_back({lhs[op.getLhsBatch()[i]], lhsStrides[op.getLhsBatch()[i]], rhsStrides[op.getRhsBatch()[i]], result[i]});
  llvm::append_range(matmul.batch, m.outer);
  for (const StridedMatmul::Batch &outer : n.outer)
    matmul.batch.push_back({outer.extent, 0, outer.lhs, outer.result});
  llvm::erase_if(matmul.batch, [](const StridedMatmul::Batch &batch) { return batch.extent == 1; });
  return matmul;
}

namespace {
// Nobody else reads what the product is added to, a product of which the same is true.
bool addsInPlace(DotGeneralOp op) {
  while (op.getAddend()) {
    auto before = op.getAddend().getDefiningOp<DotGeneralOp>();
    if (!before || !before->hasOneUse())
      return false;
    op = before;
  }
  return true;
}
} // namespace

// An operand whose contracted dimensions are not one stride, or which the target has no call for, is put into the order
// [batch, free, contracted].
void DotGeneralOp::decompose(OpBuilder &b, SmallVectorImpl<Value> &results) {
  TapeBuilder t(b, getLoc());
  if (!addsInPlace(*this)) {
    Value product = t.dot(getLhs(), getRhs(), getLhsBatch(), getRhsBatch(), getLhsContract(), getRhsContract(),
                          elementOf(getResult()), getTriangle().value_or(""));
    results.push_back(t.add(getAddend(), product));
    return;
  }
  if (auto matmul = asStridedMatmul(*this); matmul && asTargetMatmul(targetOf(*this), *matmul))
    return;
  auto orderOf = [](Value operand, Ints batch, Ints contract) {
    SmallVector<int64_t> order(batch);
    llvm::append_range(order, freeDimensions(rankOf(operand), batch, contract));
    llvm::append_range(order, contract);
    return order;
  };
  SmallVector<int64_t> lhsOrder = orderOf(getLhs(), getLhsBatch(), getLhsContract());
  SmallVector<int64_t> rhsOrder = orderOf(getRhs(), getRhsBatch(), getRhsContract());
  if (llvm::is_sorted(lhsOrder) && llvm::is_sorted(rhsOrder))
    return; // nothing more can be done
  auto leading = [](Ints batch) { return llvm::to_vector(llvm::seq<int64_t>(0, batch.size())); };
  auto trailing = [](Value operand, Ints contract) {
    return llvm::to_vector(llvm::seq<int64_t>(rankOf(operand) - contract.size(), rankOf(operand)));
  };
  results.push_back(t.dot(t.transpose(getLhs(), lhsOrder), t.transpose(getRhs(), rhsOrder), leading(getLhsBatch()),
                          leading(getRhsBatch()), trailing(getLhs(), getLhsContract()), trailing(getRhs(), getRhsContract()),
                          elementOf(getResult()), {}, getAddend()));
}

void DotGeneralOp::getPlacementRules(PlacementRules &rules) {
  const size_t first = rules.size();
  int64_t result = 0;
  for (auto [lhs, rhs] : llvm::zip(getLhsBatch(), getRhsBatch()))
    rules.push_back({{shard(lhs), shard(rhs)}, {shard(result++)}});
  for (int64_t d : freeDimensions(rankOf(getLhs()), getLhsBatch(), getLhsContract()))
    rules.push_back({{shard(d), kReplicate}, {shard(result++)}});
  for (int64_t d : freeDimensions(rankOf(getRhs()), getRhsBatch(), getRhsContract()))
    rules.push_back({{kReplicate, shard(d)}, {shard(result++)}});
  for (auto [lhs, rhs] : llvm::zip(getLhsContract(), getRhsContract()))
    rules.push_back({{shard(lhs), shard(rhs)}, {kPartialSum}});
  addLinearRule(*this, 0, rules);
  addLinearRule(*this, 1, rules);
  if (getAddend())
    for (PlacementRule &rule : MutableArrayRef(rules).drop_front(first)) {
      rule.operands.resize(3);
      rule.operands[2] = rule.results[0];
    }
}

} // namespace tapeout::tape
