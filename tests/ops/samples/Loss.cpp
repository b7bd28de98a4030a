#include "ir/tape/Loss.h"

#include "tests/ops/Sample.h"

#include <cmath>

using namespace mlir;
using namespace tapeout::tape;

namespace tapeout::ops {

namespace {
double logSumExp(const double *row, size_t classes) {
  double sum = 0;
  for (size_t c = 0; c < classes; ++c)
    sum += std::exp(row[c]);
  return std::log(sum);
}

// Losses and log-sum-exps; a label equal to `ignore` costs nothing. The cross entropy of the smoothed target.
Arrays crossEntropy(const Arrays &x, double ignore, double smoothing) {
  size_t positions = x[1].size(), classes = x[0].size() / positions;
  Arrays result(2);
  for (size_t p = 0; p < positions; ++p) {
    double lse = logSumExp(&x[0][p * classes], classes), label = x[1][p];
    double loss = 0;
    for (size_t c = 0; c < classes; ++c)
      loss += ((c == label) * (1 - smoothing) + smoothing / classes) * (lse - x[0][p * classes + c]);
    result[0].push_back(label == ignore ? 0 : loss);
    result[1].push_back(lse);
  }
  return result;
}

Sample loss(std::string name, std::vector<int64_t> logits, Input labels, int64_t ignore, double smoothing = 0) {
  return {"cross_entropy_" + name, {floats(logits), labels},
          [=](TapeBuilder &t, ValueRange x) -> Value {
            return t.builder().create<CrossEntropyOp>(t.loc(), x[0], x[1], uint64_t(ignore), APFloat(smoothing)).getLosses();
          },
          [=](const Arrays &x) { return crossEntropy(x, ignore, smoothing); }};
}

Sample lossGrad(std::string name, double smoothing) {
  return {"cross_entropy_grad_" + name,
          {floats({4, 3}), {"i32", {4}, 0, 0, {2, 0, -100, 1}}, floats({4}, 1, 2), floats({4})},
          [=](TapeBuilder &t, ValueRange x) -> Value {
            return t.builder().create<CrossEntropyGradOp>(t.loc(), x[0], x[1], x[2], x[3], uint64_t(-100), APFloat(smoothing));
          },
          [=](const Arrays &x) {
            Arrays result(1);
            for (size_t p = 0; p < 4; ++p)
              for (size_t c = 0; c < 3; ++c) {
                double target = (x[1][p] == double(c)) * (1 - smoothing) + smoothing / 3;
                result[0].push_back(x[1][p] == -100 ? 0 : (std::exp(x[0][p * 3 + c] - x[2][p]) - target) * x[3][p]);
              }
            return result;
          }};
}
} // namespace

std::vector<Sample> lossSamples() {
  return {
      loss("rows", {6, 5}, integers({6}, 0, 4), -100),
      loss("tokens", {2, 3, 7}, integers({2, 3}, 0, 6), -100),
      loss("ignored", {5, 4}, {"i32", {5}, 0, 0, {3, -100, 0, -100, 2}}, -100),
      loss("ignored_class", {4, 3}, {"i32", {4}, 0, 0, {0, 1, 2, 1}}, 1),
      loss("i64", {3, 4}, {"i64", {3}, 0, 3}, -1),
      loss("smoothed", {2, 3, 7}, integers({2, 3}, 0, 6), -100, 0.1),
      loss("smoothed_ignored", {5, 4}, {"i32", {5}, 0, 0, {3, -100, 0, -100, 2}}, -100, 0.9),
      lossGrad("plain", 0),
      lossGrad("smoothed", 0.25),
  };
}

} // namespace tapeout::ops
