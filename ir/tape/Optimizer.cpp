#include "ir/tape/Optimizer.h"

#include "ir/tape/Scalars.h"
#include "runtime/base/Hyperparameters.h"

#include <cmath>

#define GET_OP_CLASSES
#include "ir/tape/Optimizer.cpp.inc"

using namespace mlir;

namespace tapeout::tape {

void registerOptimizerOps(TapeDialect &dialect) {
  addOps<
#define GET_OP_LIST
#include "ir/tape/Optimizer.cpp.inc"
      >(dialect);
}

namespace {
using Results = SmallVectorImpl<Value>;

LogicalResult inferScalarF64(MLIRContext *context, SmallVectorImpl<Type> &types) {
  types.push_back(RankedTensorType::get({}, Float64Type::get(context)));
  return success();
}
} // namespace

LogicalResult LearningRateOp::inferReturnTypes(MLIRContext *context, std::optional<Location>, Adaptor,
                                               SmallVectorImpl<Type> &types) {
  return inferScalarF64(context, types);
}
void LearningRateOp::buildScalarBody(OpBuilder &b, Location loc, ValueRange args, Value, Results &results) {
  ScalarBuilder s(b, loc);
  Value step = s.convert(args[0], b.getF64Type()), peak = args[1], minRatio = args[2], schedule = args[3];
  Value warmup = args[4], total = args[5];
  Value zero = s.constant(peak, 0), one = s.constant(peak, 1), half = s.constant(peak, 0.5);
  auto isSchedule = [&](ScheduleKind kind) {
    return s.compare("eq", schedule, s.constant(schedule, static_cast<double>(kind)));
  };

  Value span = s.max(s.sub(total, warmup), one);
  Value progress = s.min(s.max(s.div(s.sub(step, warmup), span), zero), one);
  Value linear = s.sub(one, s.mul(s.sub(one, minRatio), progress));
  Value wave = s.mul(half, s.add(one, s.cos(s.mul(s.constant(peak, M_PI), progress))));
  Value cosine = s.add(minRatio, s.mul(s.sub(one, minRatio), wave));
  Value ratio = s.select(isSchedule(ScheduleKind::Linear), linear, s.select(isSchedule(ScheduleKind::Cosine), cosine, one));
  Value rising = s.div(s.add(step, one), s.max(warmup, one));
  results.push_back(s.mul(peak, s.select(s.compare("lt", step, warmup), rising, ratio)));
}

LogicalResult BiasCorrectionOp::inferReturnTypes(MLIRContext *context, std::optional<Location>, Adaptor,
                                                 SmallVectorImpl<Type> &types) {
  return inferScalarF64(context, types);
}
void BiasCorrectionOp::buildScalarBody(OpBuilder &b, Location loc, ValueRange args, Value, Results &results) {
  ScalarBuilder s(b, loc);
  Value beta = args[1], one = s.constant(beta, 1), t = s.add(s.convert(args[0], b.getF64Type()), one);
  results.push_back(s.sub(one, s.pow(beta, t)));
}

void AdamOp::buildScalarBody(OpBuilder &b, Location loc, ValueRange args, Value, Results &results) {
  ScalarBuilder s(b, loc);
  Value p = args[0], g = args[1], m = args[2], v = args[3];
  Type element = getElementTypeOrSelf(p.getType());
  g = s.convert(g, element);
  // Factors are computed in f64 and rounded once, as PyTorch's Python scalars are.
  auto round = [&](Value f64) { return s.convert(f64, element); };
  Value lr = args[4], decay = args[5], beta1 = args[6], beta2 = args[7], one = s.constant(lr, 1);
  if (getDecoupled())
    p = s.mul(p, round(s.sub(one, s.mul(lr, decay))));
  else
    g = s.add(g, s.mul(round(decay), p));
  m = s.add(m, s.mul(s.sub(g, m), round(s.sub(one, beta1))));
  v = s.add(s.mul(v, round(beta2)), s.mul(s.mul(g, g), round(s.sub(one, beta2))));
  Value denominator = s.add(s.div(s.sqrt(v), round(s.sqrt(args[10]))), round(args[8]));
  p = s.sub(p, s.mul(round(s.div(lr, args[9])), s.div(m, denominator)));
  results.assign({p, m, v});
}

void SgdOp::buildScalarBody(OpBuilder &b, Location loc, ValueRange args, Value, Results &results) {
  ScalarBuilder s(b, loc);
  Value p = args[0];
  Type element = getElementTypeOrSelf(p.getType());
  Value g = s.add(s.convert(args[1], element), s.mul(s.convert(args[3], element), p));
  results.push_back(s.sub(p, s.mul(s.convert(args[2], element), g)));
}

void SgdMomentumOp::buildScalarBody(OpBuilder &b, Location loc, ValueRange args, Value, Results &results) {
  ScalarBuilder s(b, loc);
  Value p = args[0];
  Type element = getElementTypeOrSelf(p.getType());
  Value g = s.add(s.convert(args[1], element), s.mul(s.convert(args[4], element), p));
  Value momentum = s.convert(args[5], element), buffer = s.add(s.mul(momentum, args[2]), g);
  Value direction = getNesterov() ? s.add(g, s.mul(momentum, buffer)) : buffer;
  results.assign({s.sub(p, s.mul(s.convert(args[3], element), direction)), buffer});
}

} // namespace tapeout::tape
