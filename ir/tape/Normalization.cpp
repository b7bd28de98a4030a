#include "ir/tape/Normalization.h"

#include "ir/tape/TapeBuilder.h"

#define GET_OP_CLASSES
#include "ir/tape/Normalization.cpp.inc"

using namespace mlir;

namespace tapeout::tape {

void registerNormalizationOps(TapeDialect &dialect) {
  addOps<
#define GET_OP_LIST
#include "ir/tape/Normalization.cpp.inc"
      >(dialect);
}

namespace {
using Results = SmallVectorImpl<Value>;

RankedTensorType rowsOf(Value value) {
  return RankedTensorType::get(shapeOf(value).drop_back(), elementOf(value));
}
double lastExtent(Value value) { return static_cast<double>(shapeOf(value).back()); }

// (x - mean) * rstd, with one mean and rstd per row.
Value normalize(TapeBuilder &t, Value x, Value mean, Value rstd) {
  return t.mul(t.sub(x, t.broadcastRows(mean, x)), t.broadcastRows(rstd, x));
}
SmallVector<int64_t> allButLast(Value value) { return llvm::to_vector(llvm::seq<int64_t>(0, rankOf(value) - 1)); }
} // namespace

//===- softmax --------------------------------------------------------------------------------------------------------===//

LogicalResult SoftmaxOp::inferReturnTypes(MLIRContext *, std::optional<Location> loc, Adaptor adaptor,
                                          SmallVectorImpl<Type> &types) {
  if (rankOf(adaptor.getOperand()) == 0)
    return emitOptionalError(loc, "softmax needs at least one dimension");
  types.push_back(adaptor.getOperand().getType());
  return success();
}
void SoftmaxOp::buildGradient(OpBuilder &b, ArrayRef<Value> dy, Results &gradients) {
  gradients.push_back(b.create<SoftmaxGradOp>(getLoc(), getResult(), dy[0]));
}
void SoftmaxOp::decompose(OpBuilder &b, Results &results) {
  TapeBuilder t(b, getLoc());
  Value x = getOperand();
  Value e = t.exp(t.sub(x, t.broadcastRows(t.reduceLast("max", x), x)));
  results.push_back(t.div(e, t.broadcastRows(t.reduceLast("sum", e), x)));
}

LogicalResult SoftmaxGradOp::inferReturnTypes(MLIRContext *, std::optional<Location>, Adaptor adaptor,
                                              SmallVectorImpl<Type> &types) {
  types.push_back(adaptor.getOutput().getType());
  return success();
}
void SoftmaxGradOp::decompose(OpBuilder &b, Results &results) {
  TapeBuilder t(b, getLoc());
  Value y = getOutput(), dy = getGradient();
  results.push_back(t.mul(y, t.sub(dy, t.broadcastRows(t.reduceLast("sum", t.mul(y, dy)), y))));
}

//===- rms_norm -------------------------------------------------------------------------------------------------------===//

LogicalResult RmsNormOp::inferReturnTypes(MLIRContext *, std::optional<Location> loc, Adaptor adaptor,
                                          SmallVectorImpl<Type> &types) {
  Value x = adaptor.getOperand();
  if (rankOf(x) == 0 || shapeOf(adaptor.getGamma()) != shapeOf(x).take_back())
    return emitOptionalError(loc, "rms_norm of ", x.getType(), " needs a gamma with the last extent, not ",
                             adaptor.getGamma().getType());
  types.assign({x.getType(), rowsOf(x)});
  return success();
}
void RmsNormOp::buildGradient(OpBuilder &b, ArrayRef<Value> dy, Results &gradients) {
  if (!dy[0]) {
    gradients.assign(2, Value());
    return;
  }
  gradients.push_back(b.create<RmsNormGradOp>(getLoc(), getOperand(), getGamma(), getRstd(), dy[0]));
  gradients.push_back(b.create<RmsNormParamGradOp>(getLoc(), getOperand(), getRstd(), dy[0]));
}
void RmsNormOp::decompose(OpBuilder &b, Results &results) {
  TapeBuilder t(b, getLoc());
  Value x = getOperand();
  Value meanSquare = t.mul(t.reduceLast("sum", t.mul(x, x)), 1.0 / lastExtent(x));
  Value rstd = t.rsqrt(t.add(meanSquare, t.constantLike(x, getEpsilon().convertToDouble())));
  results.assign({t.mul(t.mul(x, t.broadcastRows(rstd, x)), t.broadcastLast(getGamma(), x)), rstd});
}

LogicalResult RmsNormGradOp::inferReturnTypes(MLIRContext *, std::optional<Location>, Adaptor adaptor,
                                              SmallVectorImpl<Type> &types) {
  types.push_back(adaptor.getOperand().getType());
  return success();
}
// dx = rstd * (g - xhat * mean(g * xhat)) with g = dy * gamma, xhat = x * rstd and means over the row.
void RmsNormGradOp::decompose(OpBuilder &b, Results &results) {
  TapeBuilder t(b, getLoc());
  Value x = getOperand(), rstd = t.broadcastRows(getRstd(), x), xhat = t.mul(x, rstd);
  Value g = t.mul(getGradient(), t.broadcastLast(getGamma(), x));
  Value meanGXhat = t.mul(t.reduceLast("sum", t.mul(g, xhat)), 1.0 / lastExtent(x));
  results.push_back(t.mul(t.sub(g, t.mul(xhat, t.broadcastRows(meanGXhat, x))), rstd));
}

LogicalResult RmsNormParamGradOp::inferReturnTypes(MLIRContext *, std::optional<Location>, Adaptor adaptor,
                                                   SmallVectorImpl<Type> &types) {
  Value x = adaptor.getOperand();
  types.push_back(RankedTensorType::get(shapeOf(x).take_back(), elementOf(x)));
  return success();
}
void RmsNormParamGradOp::decompose(OpBuilder &b, Results &results) {
  TapeBuilder t(b, getLoc());
  Value x = getOperand(), xhat = t.mul(x, t.broadcastRows(getRstd(), x));
  results.push_back(t.reduce("sum", t.mul(getGradient(), xhat), allButLast(x)));
}

//===- layer_norm -----------------------------------------------------------------------------------------------------===//

LogicalResult LayerNormOp::inferReturnTypes(MLIRContext *, std::optional<Location> loc, Adaptor adaptor,
                                            SmallVectorImpl<Type> &types) {
  Value x = adaptor.getOperand();
  for (Value parameter : {adaptor.getGamma(), adaptor.getBeta()})
    if (rankOf(x) == 0 || shapeOf(parameter) != shapeOf(x).take_back())
      return emitOptionalError(loc, "layer_norm of ", x.getType(), " needs gamma and beta with the last extent, not ",
                               parameter.getType());
  types.assign({x.getType(), rowsOf(x), rowsOf(x)});
  return success();
}
void LayerNormOp::buildGradient(OpBuilder &b, ArrayRef<Value> dy, Results &gradients) {
  if (!dy[0]) {
    gradients.assign(3, Value());
    return;
  }
  Value dx = b.create<LayerNormGradOp>(getLoc(), getOperand(), getGamma(), getMean(), getRstd(), dy[0]);
  auto parameters = b.create<LayerNormParamGradOp>(getLoc(), getOperand(), getMean(), getRstd(), dy[0]);
  gradients.assign({dx, parameters.getGammaGradient(), parameters.getBetaGradient()});
}
void LayerNormOp::decompose(OpBuilder &b, Results &results) {
  TapeBuilder t(b, getLoc());
  Value x = getOperand();
  double scale = 1.0 / lastExtent(x);
  Value mean = t.mul(t.reduceLast("sum", x), scale);
  Value centered = t.sub(x, t.broadcastRows(mean, x));
  Value variance = t.mul(t.reduceLast("sum", t.mul(centered, centered)), scale);
  Value rstd = t.rsqrt(t.add(variance, t.constantLike(x, getEpsilon().convertToDouble())));
  Value normalized = t.mul(centered, t.broadcastRows(rstd, x));
  Value scaled = t.mul(normalized, t.broadcastLast(getGamma(), x));
  results.assign({t.add(scaled, t.broadcastLast(getBeta(), x)), mean, rstd});
}

LogicalResult LayerNormGradOp::inferReturnTypes(MLIRContext *, std::optional<Location>, Adaptor adaptor,
                                                SmallVectorImpl<Type> &types) {
  types.push_back(adaptor.getOperand().getType());
  return success();
}
// dx = rstd * (g - mean(g) - xhat * mean(g * xhat)) with g = dy * gamma and means over the row.
void LayerNormGradOp::decompose(OpBuilder &b, Results &results) {
  TapeBuilder t(b, getLoc());
  Value x = getOperand(), xhat = normalize(t, x, getMean(), getRstd());
  Value g = t.mul(getGradient(), t.broadcastLast(getGamma(), x));
  double scale = 1.0 / lastExtent(x);
  Value meanG = t.mul(t.reduceLast("sum", g), scale);
  Value meanGXhat = t.mul(t.reduceLast("sum", t.mul(g, xhat)), scale);
  Value inner = t.sub(t.sub(g, t.broadcastRows(meanG, x)), t.mul(xhat, t.broadcastRows(meanGXhat, x)));
  results.push_back(t.mul(inner, t.broadcastRows(getRstd(), x)));
}

LogicalResult LayerNormParamGradOp::inferReturnTypes(MLIRContext *, std::optional<Location>, Adaptor adaptor,
                                                     SmallVectorImpl<Type> &types) {
  Value x = adaptor.getOperand();
  types.assign(2, RankedTensorType::get(shapeOf(x).take_back(), elementOf(x)));
  return success();
}
void LayerNormParamGradOp::decompose(OpBuilder &b, Results &results) {
  TapeBuilder t(b, getLoc());
  Value x = getOperand(), dy = getGradient();
  Value gamma = t.reduce("sum", t.mul(dy, normalize(t, x, getMean(), getRstd())), allButLast(x));
  results.assign({gamma, t.reduce("sum", dy, allButLast(x))});
}

//===- placement: rows are independent, gradients linear in what flows back -----------------------------------------------===//

void SoftmaxOp::getPlacementRules(PlacementRules &rules) { addRowRules(*this, rankOf(getOperand()) - 1, {}, rules); }
void SoftmaxGradOp::getPlacementRules(PlacementRules &rules) {
  addRowRules(*this, rankOf(getOutput()) - 1, {}, rules);
  addLinearRule(*this, 1, rules);
}
void RmsNormOp::getPlacementRules(PlacementRules &rules) { addRowRules(*this, rankOf(getOperand()) - 1, {1}, rules); }
void RmsNormGradOp::getPlacementRules(PlacementRules &rules) {
  addRowRules(*this, rankOf(getOperand()) - 1, {1}, rules);
  addLinearRule(*this, 3, rules);
}
void RmsNormParamGradOp::getPlacementRules(PlacementRules &rules) {
  for (int64_t d = 0; d + 1 < rankOf(getOperand()); ++d) {
    addUniformRule(*this, shard(d), rules);
    rules.back().results = {kPartialSum};
  }
  addLinearRule(*this, 2, rules);
}
void LayerNormOp::getPlacementRules(PlacementRules &rules) {
  addRowRules(*this, rankOf(getOperand()) - 1, {1, 2}, rules);
}
void LayerNormGradOp::getPlacementRules(PlacementRules &rules) {
  addRowRules(*this, rankOf(getOperand()) - 1, {1}, rules);
  addLinearRule(*this, 4, rules);
}
void LayerNormParamGradOp::getPlacementRules(PlacementRules &rules) {
  for (int64_t d = 0; d + 1 < rankOf(getOperand()); ++d) {
    addUniformRule(*this, shard(d), rules);
    rules.back().results.assign(2, kPartialSum);
  }
  addLinearRule(*this, 3, rules);
}

} // namespace tapeout::tape
