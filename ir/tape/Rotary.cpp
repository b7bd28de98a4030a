#include "ir/tape/Rotary.h"

#include "ir/tape/Scalars.h"
#include "ir/tape/TapeBuilder.h"

#define GET_OP_CLASSES
#include "ir/tape/Rotary.cpp.inc"

using namespace mlir;

namespace tapeout::tape {

void registerRotaryOps(TapeDialect &dialect) {
  addOps<
#define GET_OP_LIST
#include "ir/tape/Rotary.cpp.inc"
      >(dialect);
}

//===- rope_table -----------------------------------------------------------------------------------------------------===//

LogicalResult RopeTableOp::inferReturnTypes(MLIRContext *context, std::optional<Location> loc, Adaptor adaptor,
                                            SmallVectorImpl<Type> &types) {
  ArrayRef<int64_t> shape = shapeOf(adaptor.getPositions());
  double base = adaptor.getBase().convertToDouble();
  if (shape.size() != 2 || !(base > 1))
    return emitOptionalError(loc, "rope_table needs positions [tokens, pairs] and a base above 1, not ",
                             adaptor.getPositions().getType(), " and ", base);
  types.assign(2, RankedTensorType::get(shape, Float32Type::get(context)));
  return success();
}
void RopeTableOp::buildScalarBody(OpBuilder &b, Location loc, ValueRange args, Value index, SmallVectorImpl<Value> &results) {
  ScalarBuilder s(b, loc);
  int64_t pairs = shapeOf(getCos()).back();
  Value position = s.convert(args[0], b.getF64Type());
  Value pair = s.convert(s.remUnsigned(index, s.constantInt(index, pairs)), b.getF64Type());
  Value exponent = s.mul(pair, s.constant(pair, -1.0 / static_cast<double>(pairs)));
  Value angle = s.mul(position, s.pow(s.constant(pair, getBase().convertToDouble()), exponent));
  results.push_back(s.convert(s.cos(angle), elementOf(getCos())));
  results.push_back(s.convert(s.sin(angle), elementOf(getSin())));
}
void RopeTableOp::getPlacementRules(PlacementRules &rules) { addUniformRule(*this, shard(0), rules); } // not by pairs

//===- rope -----------------------------------------------------------------------------------------------------------===//

LogicalResult RopeOp::inferReturnTypes(MLIRContext *, std::optional<Location> loc, Adaptor adaptor,
                                       SmallVectorImpl<Type> &types) {
  ArrayRef<int64_t> x = shapeOf(adaptor.getOperand());
  auto isTable = [&](Value table) { return shapeOf(table) == ArrayRef<int64_t>{x[1], x[3] / 2}; };
  if (x.size() != 4 || x[3] % 2 != 0 || !isTable(adaptor.getCos()) || !isTable(adaptor.getSin()))
    return emitOptionalError(loc, "rope needs [batch, tokens, heads, even size] and tables [tokens, size / 2], not ",
                             adaptor.getOperand().getType(), ", ", adaptor.getCos().getType(), " and ",
                             adaptor.getSin().getType());
  types.push_back(adaptor.getOperand().getType());
  return success();
}

namespace {
// The sum of [batch, tokens, heads, size] over everything but the position and the pair.
Value sumPerPair(TapeBuilder &t, Value value) {
  ArrayRef<int64_t> shape = shapeOf(value);
  Value halves = t.reshape(value, {shape[0], shape[1], shape[2] * 2, shape[3] / 2});
  return t.reduce("sum", t.reduce("sum", halves, {2}), {0});
}
} // namespace

// A turn's transpose is the turn back. The tables have gradients too, which are dropped where nobody asks for them.
void RopeOp::buildGradient(OpBuilder &b, ArrayRef<Value> dy, SmallVectorImpl<Value> &gradients) {
  TapeBuilder t(b, getLoc());
  Value back = b.create<RopeOp>(getLoc(), dy[0], getCos(), t.neg(getSin()));
  auto filled = [&](double value) { return t.broadcast(t.constantLike(getSin(), value), shapeOf(getSin()), {}); };
  Value quarter = b.create<RopeOp>(getLoc(), getOperand(), filled(0), filled(1));
  gradients.assign({back, sumPerPair(t, t.mul(dy[0], getOperand())), sumPerPair(t, t.mul(dy[0], quarter))});
}

// Views and elementwise ops only, so that it is one kernel: both halves are read for both halves of the result.
void RopeOp::decompose(OpBuilder &b, SmallVectorImpl<Value> &results) {
  TapeBuilder t(b, getLoc());
  ArrayRef<int64_t> x = shapeOf(getOperand());
  int64_t half = x[3] / 2;
  SmallVector<int64_t> shape = {x[0], x[1], x[2], 2, half};
  auto read = [&](int64_t start) {
    Value part = t.slice(getOperand(), {0, 0, 0, start}, {x[0], x[1], x[2], start + half});
    return t.broadcast(part, shape, {0, 1, 2, 4});
  };
  Value first = read(0), second = read(half);
  Value cos = t.broadcast(getCos(), shape, {1, 4}), sin = t.broadcast(getSin(), shape, {1, 4});
  Value inFirst = t.compare("eq", t.iota(shape, 3), t.constant(b.getI32Type(), 0));
  Value firstCos = t.mul(first, cos), secondSin = t.mul(second, sin);
  Value secondCos = t.mul(second, cos), firstSin = t.mul(first, sin);
  Value newFirst = t.sub(firstCos, secondSin), newSecond = t.add(secondCos, firstSin);
  results.push_back(t.reshape(t.select(inFirst, newFirst, newSecond), x));
}

// By sequences, positions or heads; linear in what is turned.
void RopeOp::getPlacementRules(PlacementRules &rules) {
  for (auto [dimension, table] : {std::pair(0, kReplicate), std::pair(1, shard(0)), std::pair(2, kReplicate)})
    rules.push_back({{shard(dimension), table, table}, {shard(dimension)}});
  addLinearRule(*this, 0, rules);
}

} // namespace tapeout::tape
