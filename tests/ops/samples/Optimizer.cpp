#include "ir/tape/Optimizer.h"

#include "runtime/base/Hyperparameters.h"
#include "tests/ops/Sample.h"

#include <cmath>

using namespace mlir;
using namespace tapeout::tape;

namespace tapeout::ops {

namespace {
// Warm-up over 4 steps, the end at step 12, peak 0.5, ratio 0.1.
Sample learningRate(std::string name, ScheduleKind kind, int64_t step, double expected) {
  return {"learning_rate_" + name,
          {scalar("i64", step), scalar("f64", 0.5), scalar("f64", 0.1), scalar("f64", double(kind)), scalar("f64", 4),
           scalar("f64", 12)},
          [](TapeBuilder &t, ValueRange x) -> Value {
            return t.builder().create<LearningRateOp>(t.loc(), x[0], x[1], x[2], x[3], x[4], x[5]);
          },
          [expected](const Arrays &) { return Arrays{{expected}}; }};
}

// PyTorch's Adam and AdamW at step 3, one element at a time.
Arrays adam(const Arrays &x, bool decoupled) {
  double lr = x[4][0], decay = x[5][0], beta1 = x[6][0], beta2 = x[7][0], epsilon = x[8][0], c1 = x[9][0],
         c2 = x[10][0];
  Arrays result(3);
  for (size_t i = 0; i < x[0].size(); ++i) {
    double p = x[0][i], g = x[1][i], m = x[2][i], v = x[3][i];
    if (decoupled)
      p *= 1 - lr * decay;
    else
      g += decay * p;
    m = beta1 * m + (1 - beta1) * g;
    v = beta2 * v + (1 - beta2) * g * g;
    p -= lr / c1 * m / (std::sqrt(v) / std::sqrt(c2) + epsilon);
    result[0].push_back(p);
    result[1].push_back(m);
    result[2].push_back(v);
  }
  return result;
}
Sample adamSample(std::string name, bool decoupled, std::string gradientType) {
  Input gradient = floats({7, 3});
  gradient.element = gradientType;
  return {name,
          {floats({7, 3}), gradient, floats({7, 3}), floats({7, 3}, 0.1, 1), scalar("f64", 0.01), scalar("f64", 0.1),
           scalar("f64", 0.9), scalar("f64", 0.999), scalar("f64", 1e-8), scalar("f64", 1 - std::pow(0.9, 3)),
           scalar("f64", 1 - std::pow(0.999, 3))},
          [decoupled](TapeBuilder &t, ValueRange x) -> Value {
            return t.builder()
                .create<AdamOp>(t.loc(), x[0], x[1], x[2], x[3], x[4], x[5], x[6], x[7], x[8], x[9], x[10],
                                t.builder().getBoolAttr(decoupled))
                .getNewParameter();
          },
          [decoupled](const Arrays &x) { return adam(x, decoupled); }};
}

Sample momentum(std::string name, bool nesterov) {
  return {name,
          {floats({11}), floats({11}), floats({11}), scalar("f64", 0.1), scalar("f64", 0.01), scalar("f64", 0.9)},
          [nesterov](TapeBuilder &t, ValueRange x) -> Value {
            return t.builder()
                .create<SgdMomentumOp>(t.loc(), x[0], x[1], x[2], x[3], x[4], x[5], t.builder().getBoolAttr(nesterov))
                .getNewParameter();
          },
          [nesterov](const Arrays &x) {
            Arrays result(2);
            for (size_t i = 0; i < x[0].size(); ++i) {
              double g = x[1][i] + 0.01 * x[0][i], buffer = 0.9 * x[2][i] + g;
              result[0].push_back(x[0][i] - 0.1 * (nesterov ? g + 0.9 * buffer : buffer));
              result[1].push_back(buffer);
            }
            return result;
          }};
}
} // namespace

std::vector<Sample> optimizerSamples() {
  using enum ScheduleKind;
  return {
      learningRate("first_step", Cosine, 0, 0.125),
      learningRate("last_of_warmup", Cosine, 3, 0.5),
      learningRate("constant", Constant, 9, 0.5),
      learningRate("linear", Linear, 8, 0.5 * (1 - 0.9 * 0.5)),
      learningRate("linear_after_the_end", Linear, 99, 0.05),
      learningRate("cosine", Cosine, 6, 0.5 * (0.1 + 0.9 * (1 + std::cos(M_PI / 4)) / 2)),
      learningRate("cosine_at_the_end", Cosine, 12, 0.05),
      {"bias_correction", {scalar("i64", 4), scalar("f64", 0.9)},
       [](TapeBuilder &t, ValueRange x) -> Value { return t.builder().create<BiasCorrectionOp>(t.loc(), x[0], x[1]); },
       [](const Arrays &) { return Arrays{{1 - std::pow(0.9, 5)}}; }},
      adamSample("adam", false, "f32"),
      adamSample("adamw", true, "f32"),
      adamSample("adamw_bf16_gradient", true, "bf16"),
      {"sgd", {floats({5, 3}), floats({5, 3}), scalar("f64", 0.1), scalar("f64", 0.01)},
       [](TapeBuilder &t, ValueRange x) -> Value { return t.builder().create<SgdOp>(t.loc(), x[0], x[1], x[2], x[3]); },
       [](const Arrays &x) { return mapBinary(x, [](double p, double g) { return p - 0.1 * (g + 0.01 * p); }); }},
      momentum("sgd_momentum", false),
      momentum("sgd_nesterov", true),
  };
}

} // namespace tapeout::ops
