#include "ir/tape/Embedding.h"

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
