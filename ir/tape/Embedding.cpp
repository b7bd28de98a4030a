#include "ir/tape/Embedding.h"

#include "ir/tape/Elementwise.h"
#include "ir/tape/Target.h"

#include "mlir/IR/PatternMatch.h"
#include "llvm/Support/MathExtras.h"

#define GET_OP_CLASSES
#include "ir/tape/Embedding.cpp.inc"

using namespace mlir;

namespace tapeout::tape {

void registerEmbeddingOps(TapeDialect &dialect) {
  addOps<
#define GET_OP_LIST
#include "ir/tape/Embedding.cpp.inc"
      >(dialect);
}

LogicalResult EmbeddingOp::inferReturnTypes(MLIRContext *, std::optional<Location> loc, Adaptor adaptor,
                                            SmallVectorImpl<Type> &types) {
  if (rankOf(adaptor.getTable()) != 2)
    return emitOptionalError(loc, "embedding needs a table [rows, width], not ", adaptor.getTable().getType());
  SmallVector<int64_t> shape(shapeOf(adaptor.getIds()));
  shape.push_back(shapeOf(adaptor.getTable())[1]);
  types.push_back(RankedTensorType::get(shape, elementOf(adaptor.getTable())));
  return success();
}
LogicalResult EmbeddingOp::verify() {
  if (shapeOf(getTable())[0] > INT32_MAX)
    return emitOpError("table has more rows than an i32 id can name");
  return success();
}
void EmbeddingOp::buildGradient(OpBuilder &b, ArrayRef<Value> dy, SmallVectorImpl<Value> &gradients) {
  gradients.assign({b.create<EmbeddingGradOp>(getLoc(), getIds(), dy[0], shapeOf(getTable())[0]), Value()});
}
uint64_t EmbeddingOp::getFlops() { return 0; }
uint64_t EmbeddingOp::getBytesRead() {
  return totalBytes({getIds().getType()}) + std::min(totalBytes({getTable().getType()}), totalBytes({getResult().getType()}));
}

LogicalResult EmbeddingGradOp::inferReturnTypes(MLIRContext *, std::optional<Location> loc, Adaptor adaptor,
                                                SmallVectorImpl<Type> &types) {
  int64_t rank = rankOf(adaptor.getIds());
  if (rankOf(adaptor.getGradient()) != rank + 1 || shapeOf(adaptor.getGradient()).drop_back() != shapeOf(adaptor.getIds()))
    return emitOptionalError(loc, "embedding_grad needs a gradient [ids..., width]");
  types.push_back(RankedTensorType::get({static_cast<int64_t>(adaptor.getRows()), shapeOf(adaptor.getGradient()).back()},
                                        elementOf(adaptor.getGradient())));
  return success();
}
uint64_t EmbeddingGradOp::getFlops() { return elementCount(getGradient().getType()); }

void EmbeddingGradOp::decompose(OpBuilder &b, SmallVectorImpl<Value> &results) {
  if (!targetOf(*this).sortedEmbeddingGrad)
    return;
  auto sorted = b.create<SortIdsOp>(getLoc(), getIds(), getRows());
  Value pieces = b.create<SumSortedPiecesOp>(getLoc(), getIds(), sorted.getOrder(), getGradient());
  results.push_back(b.create<SumSortedRowsOp>(getLoc(), sorted.getOrder(), sorted.getBegins(), pieces, getGradient(), Value()));
}

//===- Sums of sorted rows -----------------------------------------------------------------------------------------------===//

LogicalResult SortIdsOp::inferReturnTypes(MLIRContext *context, std::optional<Location> loc, Adaptor adaptor,
                                          SmallVectorImpl<Type> &types) {
  int64_t ids = elementCount(adaptor.getIds().getType()), rows = adaptor.getRows();
  if (ids > INT32_MAX || rows >= INT32_MAX)
    return emitOptionalError(loc, "sort_ids counts in i32, which ", ids, " ids of ", rows, " rows do not fit");
  Type i32 = IntegerType::get(context, 32);
  types.assign({RankedTensorType::get({ids}, i32), RankedTensorType::get({rows + 1}, i32)});
  return success();
}

static Type sumTypeOf(Value gradient) {
  Type element = elementOf(gradient);
  return element.isF64() ? element : Float32Type::get(element.getContext());
}
LogicalResult SumSortedPiecesOp::inferReturnTypes(MLIRContext *, std::optional<Location> loc, Adaptor adaptor,
                                                  SmallVectorImpl<Type> &types) {
  if (elementCount(adaptor.getOrder().getType()) != elementCount(adaptor.getIds().getType()) ||
      shapeOf(adaptor.getGradient()).drop_back() != shapeOf(adaptor.getIds()))
    return emitOptionalError(loc, "sum_sorted_pieces needs a gradient [ids..., width] and the order of the ids");
  int64_t pieces = llvm::divideCeil(elementCount(adaptor.getIds().getType()), kPiece);
  types.push_back(RankedTensorType::get({pieces, shapeOf(adaptor.getGradient()).back()}, sumTypeOf(adaptor.getGradient())));
  return success();
}
uint64_t SumSortedPiecesOp::getFlops() { return elementCount(getGradient().getType()); }

LogicalResult SumSortedRowsOp::inferReturnTypes(MLIRContext *, std::optional<Location> loc, Adaptor adaptor,
                                                SmallVectorImpl<Type> &types) {
  int64_t ids = elementCount(adaptor.getOrder().getType()), width = shapeOf(adaptor.getGradient()).back();
  int64_t pieces = llvm::divideCeil(ids, SumSortedPiecesOp::kPiece);
  if (int64_t(elementCount(adaptor.getGradient().getType())) != ids * width ||
      shapeOf(adaptor.getPieces()) != ArrayRef<int64_t>{pieces, width} ||
      elementOf(adaptor.getPieces()) != sumTypeOf(adaptor.getGradient()))
    return emitOptionalError(loc, "sum_sorted_rows needs the order of the gradient's rows and the sums of their pieces");
  types.push_back(RankedTensorType::get({shapeOf(adaptor.getBegins())[0] - 1, width}, elementOf(adaptor.getGradient())));
  if (adaptor.getBase() && adaptor.getBase().getType() != types.back())
    return emitOptionalError(loc, "sum_sorted_rows adds to ", types.back(), ", not to ", adaptor.getBase().getType());
  return success();
}
// A sum that is only added to something of its size is formed there: one kernel less reads and writes the whole table.
LogicalResult SumSortedRowsOp::canonicalize(SumSortedRowsOp op, PatternRewriter &rewriter) {
  auto add = op->hasOneUse() ? dyn_cast<AddOp>(*op->user_begin()) : AddOp();
  if (!add || op.getBase() || isLowPrecision(elementOf(op.getResult()))) // which would round in between
    return failure();
  Value base = add.getLhs() == op.getResult() ? add.getRhs() : add.getLhs();
  if (base.getType() != op.getResult().getType())
    return failure();
  rewriter.setInsertionPoint(add);
  auto sum = rewriter.create<SumSortedRowsOp>(op.getLoc(), op.getOrder(), op.getBegins(), op.getPieces(), op.getGradient(), base);
  sum->setDiscardableAttrs(add->getDiscardableAttrDictionary());
  rewriter.replaceOp(add, sum);
  rewriter.eraseOp(op);
  return success();
}
uint64_t SumSortedRowsOp::getFlops() { return elementCount(getGradient().getType()); }

//===- Placements ---------------------------------------------------------------------------------------------------------===//

void SortIdsOp::getPlacementRules(PlacementRules &rules) { rules.push_back({{kReplicate}, {kReplicate, kReplicate}}); }
void SumSortedPiecesOp::getPlacementRules(PlacementRules &rules) {
  rules.push_back({{kReplicate, kReplicate, shard(rankOf(getGradient()) - 1)}, {shard(1)}});
}
void SumSortedRowsOp::getPlacementRules(PlacementRules &rules) {
  rules.push_back({{kReplicate, kReplicate, shard(1), shard(rankOf(getGradient()) - 1)}, {shard(1)}});
  if (getBase())
    rules.back().operands.push_back(shard(1));
}
void EmbeddingOp::getPlacementRules(PlacementRules &rules) {
  int64_t idsRank = rankOf(getIds());
  for (int64_t d = 0; d < idsRank; ++d)
    rules.push_back({{kReplicate, shard(d)}, {shard(d)}});
  rules.push_back({{shard(1), kReplicate}, {shard(idsRank)}});
  addLinearRule(*this, 0, rules);
}
void EmbeddingGradOp::getPlacementRules(PlacementRules &rules) {
  int64_t idsRank = rankOf(getIds());
  for (int64_t d = 0; d < idsRank; ++d)
    rules.push_back({{shard(d), shard(d)}, {kPartialSum}});
  rules.push_back({{kReplicate, shard(idsRank)}, {shard(1)}});
  addLinearRule(*this, 1, rules);
}

} // namespace tapeout::tape
