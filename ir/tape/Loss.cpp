#include "ir/tape/Loss.h"

#include "ir/tape/TapeBuilder.h"

#define GET_OP_CLASSES
#include "ir/tape/Loss.cpp.inc"

using namespace mlir;

namespace tapeout::tape {

void registerLossOps(TapeDialect &dialect) {
  addOps<
#define GET_OP_LIST
#include "ir/tape/Loss.cpp.inc"
      >(dialect);
}

namespace {
// Where the class index of a logit is its position's label.
Value isLabel(TapeBuilder &t, Value logits, Value labels) {
  Value classes = t.broadcastLast(t.iota({shapeOf(logits).back()}, 0), logits);
  return t.compare("eq", classes, t.broadcastRows(t.convert(labels, t.builder().getI32Type()), logits));
}
Value isCounted(TapeBuilder &t, Value labels, int64_t ignoreIndex) {
  return t.compare("ne", labels, t.constantLike(labels, static_cast<double>(ignoreIndex)));
}
} // namespace

LogicalResult CrossEntropyOp::inferReturnTypes(MLIRContext *, std::optional<Location> loc, Adaptor adaptor,
                                               SmallVectorImpl<Type> &types) {
  Value logits = adaptor.getLogits();
  if (rankOf(logits) == 0 || shapeOf(logits).drop_back() != shapeOf(adaptor.getLabels()))
    return emitOptionalError(loc, "cross_entropy needs logits [positions..., classes] and labels [positions...], not ",
                             logits.getType(), " and ", adaptor.getLabels().getType());
  types.assign(2, RankedTensorType::get(shapeOf(logits).drop_back(), elementOf(logits)));
  return success();
}
LogicalResult CrossEntropyOp::verify() {
  if (static_cast<int64_t>(getIgnoreIndex()) >= 0 && static_cast<int64_t>(getIgnoreIndex()) > INT32_MAX)
    return emitOpError("ignore_index ") << getIgnoreIndex() << " does not fit in a label";
  double smoothing = getSmoothing().convertToDouble();
  if (!(smoothing >= 0 && smoothing < 1))
    return emitOpError("smoothing ") << smoothing << " is not in [0, 1)";
  return success();
}
void CrossEntropyOp::buildGradient(OpBuilder &b, ArrayRef<Value> dy, SmallVectorImpl<Value> &gradients) {
  Value dx;
  if (dy[0])
    dx = b.create<CrossEntropyGradOp>(getLoc(), getLogits(), getLabels(), getLse(), dy[0], getIgnoreIndexAttr(),
                                        getSmoothingAttr());
  gradients.assign({dx, Value()});
}
void CrossEntropyOp::decompose(OpBuilder &b, SmallVectorImpl<Value> &results) {
  TapeBuilder t(b, getLoc());
  Value x = getLogits(), zero = t.constantLike(x, 0);
  Value max = t.reduceLast("max", x);
  Value sum = t.reduceLast("sum", t.exp(t.sub(x, t.broadcastRows(max, x))));
  Value lse = t.add(max, t.log(sum));
  Value picked = t.reduceLast("sum", t.select(isLabel(t, x, getLabels()), x, zero));
  if (double smoothing = getSmoothing().convertToDouble(); smoothing > 0) {
    Value everywhere = t.mul(t.reduceLast("sum", x), smoothing / shapeOf(x).back());
    picked = t.add(t.mul(picked, 1 - smoothing), everywhere);
  }
  Value counted = isCounted(t, getLabels(), getIgnoreIndex());
  results.assign({t.select(counted, t.sub(lse, picked), zero), lse});
}

LogicalResult CrossEntropyGradOp::inferReturnTypes(MLIRContext *, std::optional<Location>, Adaptor adaptor,
                                                   SmallVectorImpl<Type> &types) {
  types.push_back(adaptor.getLogits().getType());
  return success();
}
void CrossEntropyGradOp::decompose(OpBuilder &b, SmallVectorImpl<Value> &results) {
  TapeBuilder t(b, getLoc());
  Value x = getLogits();
  Value probabilities = t.exp(t.sub(x, t.broadcastRows(getLse(), x)));
  Value target = t.convert(isLabel(t, x, getLabels()), elementOf(x));
  if (double smoothing = getSmoothing().convertToDouble(); smoothing > 0)
    target = t.add(t.mul(target, 1 - smoothing), t.constantLike(x, smoothing / shapeOf(x).back()));
  Value counted = isCounted(t, getLabels(), getIgnoreIndex());
  Value scale = t.select(counted, getGradient(), t.constantLike(x, 0));
  results.push_back(t.mul(t.sub(probabilities, target), t.broadcastRows(scale, x)));
}

// Positions are independent. The classes are not: shards of the vocabulary follow from the decomposed form, where the
// maximum and the sum are reductions.
void CrossEntropyOp::getPlacementRules(PlacementRules &rules) { addRowRules(*this, rankOf(getLabels()), {}, rules); }
void CrossEntropyGradOp::getPlacementRules(PlacementRules &rules) {
  addRowRules(*this, rankOf(getLabels()), {}, rules);
  addLinearRule(*this, 3, rules);
}

} // namespace tapeout::tape
