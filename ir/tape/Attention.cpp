#include "ir/tape/Attention.h"

#include "ir/tape/Random.h"
#include "ir/tape/TapeBuilder.h"

#include <limits>

#define GET_OP_CLASSES
#include "ir/tape/Attention.cpp.inc"

using namespace mlir;

namespace tapeout::tape {

void registerAttentionOps(TapeDialect &dialect) {
  addOps<
#define GET_OP_LIST
#include "ir/tape/Attention.cpp.inc"
      >(dialect);
}

namespace {
using Results = SmallVectorImpl<Value>;

// What forward and backward have in common. Activations are [batch, tokens, heads, size], scores
// [batch, heads, query tokens, key tokens]. Where key heads are fewer, each is repeated for its group of heads. In low
// precision, scores and what is computed of them are f32; they are rounded where they enter a product, as FlashAttention
// does.
template <typename Op> class Decomposition {
public:
  Decomposition(Op op, OpBuilder &b) : op_(op), t(b, op.getLoc()) {}

  Value key() { return repeated(op_.getKey()); }
  Value value() { return repeated(op_.getValue()); }

  Value maskedScores(Value key) {
    Value scores = t.mul(perHead(op_.getQuery(), key), op_.getScale().convertToDouble());
    ArrayRef<int64_t> shape = shapeOf(scores);
    auto hideUnless = [&](Value visible) {
      return t.select(visible, scores, t.constantLike(scores, -std::numeric_limits<double>::infinity()));
    };
    if (op_.getLengths()) // rows of padding, which count nowhere, keep numbers
      scores = t.select(isToken(shape, 2), hideUnless(isToken(shape, 3)), scores);
    if (!op_.getCausal())
      return scores;
    Value visible = t.compare("ge", t.iota(shape.take_back(2), 0), t.iota(shape.take_back(2), 1));
    return hideUnless(t.broadcast(visible, shape, {2, 3}));
  }
  // Rows of padding give nothing to any sum.
  Value withoutPadding(Value probabilities) {
    if (!op_.getLengths())
      return probabilities;
    return t.select(isToken(shapeOf(probabilities), 2), probabilities, t.constantLike(probabilities, 0));
  }
  // a and b [batch, tokens, heads, size]: [batch, heads, a's tokens, b's tokens]. What a causal mask hides is not used.
  Value perHead(Value a, Value b) {
    return t.dot(a, b, {0, 2}, {0, 2}, {3}, {3}, computeType(elementOf(a)), op_.getCausal() ? "result" : "");
  }
  // scores [batch, heads, q, k] with b [batch, tokens, heads, size], contracting the given scores dimension with b's
  // tokens: [batch, tokens, heads, size]. Hidden scores are zero.
  Value weighted(Value scores, Value b, int64_t contract) {
    StringRef triangle = !op_.getCausal() ? "" : contract == 3 ? "lhs" : "lhs_transposed";
    return t.transpose(t.dot(t.convert(scores, elementOf(b)), b, {0, 1}, {0, 2}, {contract}, {1}, {}, triangle), {0, 2, 1, 3});
  }
  // The gradient of a key head: the sum over its group.
  Value sumOverGroups(Value gradient) {
    ArrayRef<int64_t> keys = shapeOf(op_.getKey());
    if (group() == 1)
      return gradient;
    Value groups = t.reshape(gradient, {keys[0], keys[1], keys[2], group(), keys[3]});
    return t.convert(t.reduce("sum", computed(groups), {3}), elementOf(gradient));
  }
  Value dropped(Value probabilities) {
    if (!op_.isStochastic())
      return probabilities;
    return t.builder().template create<DropoutOp>(t.loc(), probabilities, op_.getSeed(), op_.getStep(), op_.getDropout(),
                                                  op_.getStream());
  }

  // In the type that elements are computed in.
  Value computed(Value value) { return t.convert(value, computeType(elementOf(value))); }

private:
  // Of scores: whether the index along a dimension is that of a token, not of padding.
  Value isToken(ArrayRef<int64_t> scores, int64_t dimension) {
    Value lengths = t.maximum(op_.getLengths(), t.constantLike(op_.getLengths(), 1));
    return t.compare("lt", t.iota(scores, dimension), t.broadcast(lengths, scores, {0}));
  }
  int64_t group() { return shapeOf(op_.getQuery())[2] / shapeOf(op_.getKey())[2]; }
  Value repeated(Value keys) {
    ArrayRef<int64_t> shape = shapeOf(keys);
    if (group() == 1)
      return keys;
    Value grouped = t.broadcast(keys, {shape[0], shape[1], shape[2], group(), shape[3]}, {0, 1, 2, 4});
    return t.reshape(grouped, {shape[0], shape[1], shape[2] * group(), shape[3]});
  }

  Op op_;

public:
  TapeBuilder t;
};

/// The scores that are used: those on and below the diagonal of a causal mask, all otherwise.
template <typename Op> uint64_t scoreCount(Op op) {
  ArrayRef<int64_t> q = shapeOf(op.getQuery());
  uint64_t tokens = q[1], keys = shapeOf(op.getKey())[1];
  return uint64_t(q[0]) * q[2] * (op.getCausal() ? tokens * (tokens + 1) / 2 : tokens * keys);
}

template <typename Op> void dropRandomnessOf(Op op) {
  op.setDropoutAttr(FloatAttr::get(Float64Type::get(op.getContext()), 0.0));
  op.getSeedMutable().clear();
  op.getStepMutable().clear();
}
} // namespace

LogicalResult AttentionOp::inferReturnTypes(MLIRContext *, std::optional<Location> loc, Adaptor adaptor,
                                            SmallVectorImpl<Type> &types) {
  ArrayRef<int64_t> q = shapeOf(adaptor.getQuery()), k = shapeOf(adaptor.getKey()), v = shapeOf(adaptor.getValue());
  if (q.size() != 4 || k.size() != 4 || k != v || q[0] != k[0] || q[2] % k[2] != 0 || q[3] != k[3])
    return emitOptionalError(loc, "attention needs query, key and value [batch, tokens, heads, size] that agree, not ",
                             adaptor.getQuery().getType(), ", ", adaptor.getKey().getType(), " and ",
                             adaptor.getValue().getType(), "; the heads of the query are a multiple of those of the key");
  types.push_back(adaptor.getQuery().getType());
  types.push_back(RankedTensorType::get({q[0], q[2], q[1]}, computeType(elementOf(adaptor.getQuery()))));
  return success();
}
LogicalResult AttentionOp::verify() {
  double rate = getDropout().convertToDouble();
  if (!(rate >= 0 && rate < 1))
    return emitOpError("dropout ") << rate << " is not in [0, 1)";
  if (getCausal() && shapeOf(getQuery())[1] != shapeOf(getKey())[1])
    return emitOpError("causal attention needs as many keys as queries");
  bool areKeysTokens = shapeOf(getQuery())[1] == shapeOf(getKey())[1];
  if (getLengths() && (shapeOf(getLengths()) != shapeOf(getQuery()).take_front(1) || !areKeysTokens))
    return emitOpError("attention with padding needs a length for each of the ")
           << shapeOf(getQuery())[0] << " sequences and as many keys as queries";
  return success();
}
bool AttentionOp::isStochastic() { return !getDropout().isZero(); }
bool AttentionOp::hasRandomKey() { return getSeed() != nullptr; }
void AttentionOp::setRandomKey(Value seed, Value step, uint64_t stream) {
  getSeedMutable().assign(seed);
  getStepMutable().assign(step);
  setStream(stream);
}
void AttentionOp::dropRandomness() { dropRandomnessOf(*this); }

void AttentionOp::buildGradient(OpBuilder &b, ArrayRef<Value> dy, Results &gradients) {
  if (dy[0]) {
    auto op = b.create<AttentionGradOp>(getLoc(), getQuery(), getKey(), getValue(), getResult(), getLse(), dy[0], getLengths(),
                                        getSeed(), getStep(), getCausalAttr(), getScaleAttr(), getDropoutAttr(),
                                        getStreamAttr(), getLibraryAttr());
    llvm::append_range(gradients, op.getResults());
  }
  gradients.resize(getNumOperands());
}

void AttentionOp::decompose(OpBuilder &b, Results &results) {
  if (getLibrary())
    return;
  Decomposition d(*this, b);
  TapeBuilder &t = d.t;
  Value scores = d.maskedScores(d.key());
  Value max = t.reduceLast("max", scores);
  Value weights = t.exp(t.sub(scores, t.broadcastRows(max, scores)));
  Value sum = t.reduceLast("sum", weights);
  Value probabilities = d.withoutPadding(t.div(weights, t.broadcastRows(sum, scores)));
  results.push_back(d.weighted(d.dropped(probabilities), d.value(), 3));
  results.push_back(t.add(max, t.log(sum)));
}
uint64_t AttentionOp::getFlops() { return scoreCount(*this) * (4 * shapeOf(getQuery())[3] + 6); }

LogicalResult AttentionGradOp::inferReturnTypes(MLIRContext *, std::optional<Location>, Adaptor adaptor,
                                                SmallVectorImpl<Type> &types) {
  types.assign({adaptor.getQuery().getType(), adaptor.getKey().getType(), adaptor.getValue().getType()});
  return success();
}
bool AttentionGradOp::isStochastic() { return !getDropout().isZero(); }
bool AttentionGradOp::hasRandomKey() { return getSeed() != nullptr; }
void AttentionGradOp::setRandomKey(Value seed, Value step, uint64_t stream) {
  getSeedMutable().assign(seed);
  getStepMutable().assign(step);
  setStream(stream);
}
void AttentionGradOp::dropRandomness() { dropRandomnessOf(*this); }

// As in FlashAttention (Dao et al. 2022): P = exp(S - lse); dV = P^T dO; dS = P * (dP - rowsum(dO * O)) * scale.
void AttentionGradOp::decompose(OpBuilder &b, Results &results) {
  if (getLibrary())
    return;
  Decomposition d(*this, b);
  TapeBuilder &t = d.t;
  Value key = d.key(), scores = d.maskedScores(key);
  Value probabilities = d.withoutPadding(t.exp(t.sub(scores, t.broadcastRows(getLse(), scores))));
  Value dValue = d.weighted(d.dropped(probabilities), getGradient(), 2);
  Value dProbabilities = d.dropped(d.perHead(getGradient(), d.value()));
  Value delta = t.transpose(t.reduceLast("sum", t.mul(d.computed(getGradient()), d.computed(getOutput()))), {0, 2, 1});
  Value dScores = t.mul(probabilities, t.sub(dProbabilities, t.broadcastRows(delta, scores)));
  dScores = t.mul(dScores, getScale().convertToDouble());
  Value dKey = d.sumOverGroups(d.weighted(dScores, getQuery(), 2));
  results.assign({d.weighted(dScores, key, 3), dKey, d.sumOverGroups(dValue)});
}
uint64_t AttentionGradOp::getFlops() { return scoreCount(*this) * (10 * shapeOf(getQuery())[3] + 12); }

// Of cuDNN's kernels that repeat their bits: the scores of a slice of the batch in 16 bits, in tiles of up to 128 tokens, and
// gradients for each head where heads share a key; beside it a number for each row of the batch
// (runtime/device/cuda/CudnnAttention.cpp). Random bits are drawn for a whole batch. Of others: the query's gradient in f32.
SmallVector<int64_t> AttentionGradOp::getScratchSizes() {
  constexpr int64_t kTile = 128, kMargin = 1 << 16;
  ArrayRef<int64_t> query = shapeOf(getQuery());
  int64_t batch = query[0], tokens = query[1], padded = llvm::alignTo(tokens, kTile);
  int64_t shared = shapeOf(getKey())[2] == query[2] ? 0 : 2 * tokens * query[3];
  if (getNondeterministic())
    return {batch * query[2] * (tokens * query[3] * 4 + 2 * shared + tokens * 4) + kMargin};
  SmallVector<int64_t> sizes;
  for (int64_t slices = 1; slices <= (isStochastic() ? 1 : batch); ++slices)
    if (batch % slices == 0)
      sizes.push_back(batch / slices * query[2] * 2 * (padded * padded + shared) + batch * query[2] * tokens * 4 + kMargin);
  return sizes;
}

// The library wants the elements of a head side by side; log-sum-exp has no strides.
namespace {
bool areOfHeads(ArrayRef<int64_t> strides) { return strides.size() == 4 && strides.back() == 1; }
/// The same, and pieces of 16 bytes lie evenly.
bool areOfEvenHeads(ArrayRef<int64_t> strides) {
  return areOfHeads(strides) && llvm::all_of(strides.drop_back(), [](int64_t stride) { return stride % 8 == 0; });
}
} // namespace
bool AttentionOp::readsStrides(unsigned, ArrayRef<int64_t> strides) { return areOfHeads(strides); }
bool AttentionOp::writesStrides(unsigned, ArrayRef<int64_t> strides) { return areOfHeads(strides); }
bool AttentionGradOp::readsStrides(unsigned, ArrayRef<int64_t> strides) { return areOfHeads(strides); }
bool AttentionGradOp::writesStrides(unsigned, ArrayRef<int64_t> strides) { return areOfHeads(strides); }

bool AttentionQueryGradientOp::isSelected() { return true; }
bool AttentionQueryGradientOp::readsStrides(unsigned operand, ArrayRef<int64_t> strides) {
  return operand != 4 /*lse*/ && areOfEvenHeads(strides);
}
bool AttentionQueryGradientOp::writesStrides(unsigned result, ArrayRef<int64_t> strides) {
  return result != 1 /*rows*/ && areOfEvenHeads(strides);
}
bool AttentionKeyGradientsOp::isSelected() { return true; }
bool AttentionKeyGradientsOp::readsStrides(unsigned operand, ArrayRef<int64_t> strides) {
  return operand != 4 /*rows*/ && areOfEvenHeads(strides);
}
bool AttentionKeyGradientsOp::writesStrides(unsigned, ArrayRef<int64_t> strides) { return areOfEvenHeads(strides); }

namespace {
Type columnSumsOf(Value query) {
  ArrayRef<int64_t> q = shapeOf(query);
  return RankedTensorType::get({q[0], int64_t(llvm::divideCeil(q[1], kKernelTile)), q[2], q[3]}, computeType(elementOf(query)));
}
} // namespace
LogicalResult AttentionQueryGradientOp::inferReturnTypes(MLIRContext *, std::optional<Location>, Adaptor adaptor,
                                                         SmallVectorImpl<Type> &types) {
  ArrayRef<int64_t> q = shapeOf(adaptor.getQuery());
  types.append({adaptor.getQuery().getType(), RankedTensorType::get({2, q[0], q[2], q[1]}, elementOf(adaptor.getLse()))});
  if (adaptor.getSums())
    types.push_back(columnSumsOf(adaptor.getQuery()));
  return success();
}
LogicalResult AttentionKeyGradientsOp::inferReturnTypes(MLIRContext *, std::optional<Location>, Adaptor adaptor,
                                                        SmallVectorImpl<Type> &types) {
  types.append({adaptor.getKey().getType(), adaptor.getValue().getType()});
  if (adaptor.getSums())
    types.append(2, columnSumsOf(adaptor.getQuery()));
  return success();
}
// Three and four products of the five that a gradient needs, two of them by both.
uint64_t AttentionQueryGradientOp::getFlops() { return scoreCount(*this) * (6 * shapeOf(getQuery())[3] + 6); }
uint64_t AttentionKeyGradientsOp::getFlops() { return scoreCount(*this) * (8 * shapeOf(getQuery())[3] + 6); }

namespace {
// By sequences or by heads, of which lengths and random numbers know nothing.
template <typename Op> void addRules(Op op, unsigned tensors, PlacementRules &rules) {
  for (auto [dimension, lse] : {std::pair(0, 0), std::pair(2, 1)}) { // lse [batch, heads, tokens] has its heads elsewhere
    PlacementRule &rule = rules.emplace_back();
    rule.operands.assign(op->getNumOperands(), kReplicate);
    std::fill_n(rule.operands.begin(), tensors, shard(dimension));
    if (op.getLengths() && dimension == 0)
      rule.operands[tensors] = shard(0);
    if (tensors > 3)
      rule.operands[4] = shard(lse);
    rule.results.assign(op->getNumResults(), shard(dimension));
    if (tensors == 3)
      rule.results[1] = shard(lse);
  }
}
} // namespace
void AttentionOp::getPlacementRules(PlacementRules &rules) { addRules(*this, 3, rules); }
void AttentionGradOp::getPlacementRules(PlacementRules &rules) { addRules(*this, 6, rules); }

void AttentionQueryGradientOp::getPlacementRules(PlacementRules &rules) {
  for (auto [heads, lse, rows] : {std::tuple(0, 0, 1), std::tuple(2, 1, 2)}) {
    PlacementRule &rule = rules.emplace_back();
    rule.operands = {shard(heads), shard(heads), shard(heads), shard(heads), shard(lse), shard(heads)};
    rule.results = {shard(heads), shard(rows)};
    if (getSums())
      rule.results.push_back(shard(heads));
  }
}
void AttentionKeyGradientsOp::getPlacementRules(PlacementRules &rules) {
  for (auto [heads, rows] : {std::pair(0, 1), std::pair(2, 2)}) {
    PlacementRule &rule = rules.emplace_back();
    rule.operands = {shard(heads), shard(heads), shard(heads), shard(heads), shard(rows)};
    rule.results.assign(getNumResults(), shard(heads));
  }
}

} // namespace tapeout::tape
