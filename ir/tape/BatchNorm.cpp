#include "ir/tape/BatchNorm.h"

#include "ir/tape/TapeBuilder.h"

#define GET_OP_CLASSES
#include "ir/tape/BatchNorm.cpp.inc"

using namespace mlir;

namespace tapeout::tape {

void registerBatchNormOps(TapeDialect &dialect) {
  addOps<
#define GET_OP_LIST
#include "ir/tape/BatchNorm.cpp.inc"
      >(dialect);
}

namespace {
using Results = SmallVectorImpl<Value>;

int64_t channelsOf(Value x) { return shapeOf(x)[1]; }
double elementsPerChannel(Value x) {
  return static_cast<double>(elementCount(x.getType())) / static_cast<double>(channelsOf(x));
}
double elementsPerPlane(Value x) { return elementsPerChannel(x) / static_cast<double>(shapeOf(x)[0]); }
bool hasPlanes(Value x) { return rankOf(x) > 2; }
SmallVector<int64_t> planeDimensions(Value x) { return llvm::to_vector(llvm::seq<int64_t>(2, rankOf(x))); }

// [channels] along x, and [batch, channels] along the planes of x.
Value alongChannels(TapeBuilder &t, Value channel, Value x) { return t.broadcast(channel, shapeOf(x), {1}); }
Value alongPlanes(TapeBuilder &t, Value plane, Value x) { return t.broadcast(plane, shapeOf(x), {0, 1}); }

Value sumPlanes(TapeBuilder &t, Value x) { return hasPlanes(x) ? t.reduce("sum", x, planeDimensions(x)) : x; }
// Plane by plane first: rows in memory. [batch, channels, ...] to [channels].
Value sumChannels(TapeBuilder &t, Value x) { return t.reduce("sum", sumPlanes(t, x), {0}); }

Value rstdOf(TapeBuilder &t, Value variance, const APFloat &epsilon) {
  return t.rsqrt(t.add(variance, t.constantLike(variance, epsilon.convertToDouble())));
}

LogicalResult checkChannels(std::optional<Location> loc, Value x, ValueRange perChannel) {
  if (rankOf(x) < 2)
    return emitOptionalError(loc, "normalising channels needs an operand [batch, channels, ...], not ", x.getType());
  for (Value value : perChannel)
    if (shapeOf(value) != ArrayRef<int64_t>(channelsOf(x)))
      return emitOptionalError(loc, "normalising ", x.getType(), " needs one number for each of its ", channelsOf(x),
                               " channels, not ", value.getType());
  return success();
}
Type channelType(Value x) { return RankedTensorType::get({channelsOf(x)}, elementOf(x)); }
} // namespace

//===- batch_norm_statistics ------------------------------------------------------------------------------------------===//

LogicalResult BatchNormStatisticsOp::inferReturnTypes(MLIRContext *, std::optional<Location> loc, Adaptor adaptor,
                                                      SmallVectorImpl<Type> &types) {
  Value x = adaptor.getOperand();
  if (failed(checkChannels(loc, x, {adaptor.getRunningMean(), adaptor.getRunningVariance()})))
    return failure();
  if (elementsPerChannel(x) < 2)
    return emitOptionalError(loc, "the statistics of ", x.getType(),
                             " need more than one element per channel; use a larger --batch");
  types.assign(4, channelType(x));
  return success();
}
SmallVector<std::pair<unsigned, unsigned>> BatchNormStatisticsOp::getStateUpdates() { return {{1, 2}, {2, 3}}; }
void BatchNormStatisticsOp::useState() {
  getMean().replaceAllUsesWith(getRunningMean());
  getVariance().replaceAllUsesWith(getRunningVariance());
}
void BatchNormStatisticsOp::buildGradient(OpBuilder &b, ArrayRef<Value> dy, Results &gradients) {
  TapeBuilder t(b, getLoc());
  Value x = getOperand(), dx;
  double scale = 1.0 / elementsPerChannel(x);
  if (dy[1]) {
    Value centered = t.sub(x, alongChannels(t, getMean(), x));
    dx = t.mul(centered, alongChannels(t, t.mul(dy[1], 2 * scale), x));
  }
  if (dy[0]) {
    Value ofMean = alongChannels(t, t.mul(dy[0], scale), x);
    dx = dx ? t.add(dx, ofMean) : ofMean;
  }
  gradients.assign({dx, Value(), Value()});
}
// One pass over x: mean and squared deviations of each plane, then those of the channels from them (Chan et al. 1979).
void BatchNormStatisticsOp::decompose(OpBuilder &b, Results &results) {
  TapeBuilder t(b, getLoc());
  Value x = getOperand();
  double batch = static_cast<double>(shapeOf(x)[0]), plane = elementsPerPlane(x), count = elementsPerChannel(x);
  Value planeMean = hasPlanes(x) ? t.mul(sumPlanes(t, x), 1.0 / plane) : x;
  Value mean = t.mul(t.reduce("sum", planeMean, {0}), 1.0 / batch);
  Value between = t.sub(planeMean, alongChannels(t, mean, planeMean));
  Value squares = t.mul(t.reduce("sum", t.mul(between, between), {0}), plane);
  if (hasPlanes(x)) {
    Value within = t.sub(x, alongPlanes(t, planeMean, x));
    squares = t.add(squares, sumChannels(t, t.mul(within, within)));
  }
  Value variance = t.mul(squares, 1.0 / count), unbiased = t.mul(squares, 1.0 / (count - 1));
  double momentum = getMomentum().convertToDouble();
  auto updated = [&](Value old, Value batch) { return t.add(t.mul(old, 1 - momentum), t.mul(batch, momentum)); };
  results.assign({mean, variance, updated(getRunningMean(), mean), updated(getRunningVariance(), unbiased)});
}
void BatchNormStatisticsOp::getPlacementRules(PlacementRules &rules) {
  rules.push_back({{shard(1), shard(0), shard(0)}, {shard(0), shard(0), shard(0), shard(0)}});
}

//===- batch_norm -----------------------------------------------------------------------------------------------------===//

LogicalResult BatchNormOp::inferReturnTypes(MLIRContext *, std::optional<Location> loc, Adaptor adaptor,
                                            SmallVectorImpl<Type> &types) {
  types.push_back(adaptor.getOperand().getType());
  return checkChannels(loc, adaptor.getOperand(), adaptor.getOperands().drop_front());
}
void BatchNormOp::buildGradient(OpBuilder &b, ArrayRef<Value> dy, Results &gradients) {
  TapeBuilder t(b, getLoc());
  Value x = getOperand(), rstd = rstdOf(t, getVariance(), getEpsilon()), scale = t.mul(getGamma(), rstd);
  auto sums = b.create<BatchNormSumsOp>(getLoc(), x, getMean(), getVariance(), dy[0], getEpsilonAttr());
  Value dx = t.mul(dy[0], alongChannels(t, scale, x));
  Value dMean = t.neg(t.mul(scale, sums.getSum()));
  Value dVariance = t.mul(t.mul(t.mul(scale, rstd), sums.getDot()), -0.5);
  gradients.assign({dx, dMean, dVariance, sums.getDot(), sums.getSum()});
}
void BatchNormOp::decompose(OpBuilder &b, Results &results) {
  TapeBuilder t(b, getLoc());
  Value x = getOperand(), scale = t.mul(getGamma(), rstdOf(t, getVariance(), getEpsilon()));
  Value scaled = t.mul(t.sub(x, alongChannels(t, getMean(), x)), alongChannels(t, scale, x));
  results.push_back(t.add(scaled, alongChannels(t, getBeta(), x)));
}
void BatchNormOp::getPlacementRules(PlacementRules &rules) {
  for (int64_t d = 0; d < rankOf(getOperand()); ++d) {
    AxisPlacement channel = d == 1 ? shard(0) : kReplicate;
    rules.push_back({{shard(d), channel, channel, channel, channel}, {shard(d)}});
  }
}

//===- batch_norm_sums ------------------------------------------------------------------------------------------------===//

LogicalResult BatchNormSumsOp::inferReturnTypes(MLIRContext *, std::optional<Location> loc, Adaptor adaptor,
                                                SmallVectorImpl<Type> &types) {
  Value x = adaptor.getOperand();
  if (failed(checkChannels(loc, x, {adaptor.getMean(), adaptor.getVariance()})))
    return failure();
  if (adaptor.getGradient().getType() != x.getType())
    return emitOptionalError(loc, "batch_norm_sums needs a gradient of the operand's type");
  types.assign(2, channelType(x));
  return success();
}
void BatchNormSumsOp::decompose(OpBuilder &b, Results &results) {
  TapeBuilder t(b, getLoc());
  Value x = getOperand(), dy = getGradient();
  Value product = t.mul(dy, t.sub(x, alongChannels(t, getMean(), x)));
  Value dot = t.mul(sumChannels(t, product), rstdOf(t, getVariance(), getEpsilon()));
  results.assign({sumChannels(t, dy), dot});
}
void BatchNormSumsOp::getPlacementRules(PlacementRules &rules) {
  for (int64_t d = 0; d < rankOf(getOperand()); ++d) {
    AxisPlacement channel = d == 1 ? shard(0) : kReplicate, result = d == 1 ? shard(0) : kPartialSum;
    rules.push_back({{shard(d), channel, channel, shard(d)}, {result, result}});
  }
  addLinearRule(*this, 3, rules);
}

//===- group_norm -----------------------------------------------------------------------------------------------------===//

namespace {
// x as [batch, groups, elements of a group], and [batch, groups] along it.
Value asGroups(TapeBuilder &t, Value x, int64_t groups) {
  int64_t batch = shapeOf(x)[0];
  return t.reshape(x, {batch, groups, static_cast<int64_t>(elementCount(x.getType())) / batch / groups});
}
} // namespace

LogicalResult GroupNormOp::inferReturnTypes(MLIRContext *, std::optional<Location> loc, Adaptor adaptor,
                                            SmallVectorImpl<Type> &types) {
  Value x = adaptor.getOperand();
  int64_t groups = adaptor.getGroups();
  if (failed(checkChannels(loc, x, {adaptor.getGamma(), adaptor.getBeta()})))
    return failure();
  if (groups < 1 || channelsOf(x) % groups != 0)
    return emitOptionalError(loc, "group_norm cannot divide ", channelsOf(x), " channels into ", groups,
                             " equal groups");
  Type ofGroups = RankedTensorType::get({shapeOf(x)[0], groups}, elementOf(x));
  types.assign({x.getType(), ofGroups, ofGroups});
  return success();
}
// As layer_norm: dx = rstd * (g - mean(g) - xhat * mean(g * xhat)) with g = dy * gamma and means over the group.
void GroupNormOp::buildGradient(OpBuilder &b, ArrayRef<Value> dy, Results &gradients) {
  gradients.assign(3, Value());
  if (!dy[0])
    return;
  TapeBuilder t(b, getLoc());
  Value x = getOperand(), groups = asGroups(t, x, getGroups()), rstd = t.broadcastRows(getRstd(), groups);
  Value xhat = t.mul(t.sub(groups, t.broadcastRows(getMean(), groups)), rstd);
  Value g = asGroups(t, t.mul(dy[0], alongChannels(t, getGamma(), x)), getGroups());
  double scale = 1.0 / static_cast<double>(shapeOf(groups).back());
  Value meanG = t.broadcastRows(t.mul(t.reduceLast("sum", g), scale), groups);
  Value meanGXhat = t.broadcastRows(t.mul(t.reduceLast("sum", t.mul(g, xhat)), scale), groups);
  Value dx = t.mul(t.sub(t.sub(g, meanG), t.mul(xhat, meanGXhat)), rstd);
  gradients[0] = t.reshape(dx, shapeOf(x));
  gradients[1] = sumChannels(t, t.mul(dy[0], t.reshape(xhat, shapeOf(x))));
  gradients[2] = sumChannels(t, dy[0]);
}
void GroupNormOp::decompose(OpBuilder &b, Results &results) {
  TapeBuilder t(b, getLoc());
  Value x = getOperand(), groups = asGroups(t, x, getGroups());
  double scale = 1.0 / static_cast<double>(shapeOf(groups).back());
  Value mean = t.mul(t.reduceLast("sum", groups), scale), centered = t.sub(groups, t.broadcastRows(mean, groups));
  Value rstd = rstdOf(t, t.mul(t.reduceLast("sum", t.mul(centered, centered)), scale), getEpsilon());
  Value xhat = t.reshape(t.mul(centered, t.broadcastRows(rstd, groups)), shapeOf(x));
  Value scaled = t.mul(xhat, alongChannels(t, getGamma(), x));
  results.assign({t.add(scaled, alongChannels(t, getBeta(), x)), mean, rstd});
}
void GroupNormOp::getPlacementRules(PlacementRules &rules) {
  rules.push_back({{shard(0), kReplicate, kReplicate}, {shard(0), shard(0), shard(0)}});
}

} // namespace tapeout::tape
