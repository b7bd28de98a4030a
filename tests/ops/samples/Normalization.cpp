#include "ir/tape/Normalization.h"

#include "tests/ops/Sample.h"

#include <cmath>

using namespace mlir;
using namespace tapeout::tape;

namespace tapeout::ops {

namespace {
Arrays softmax(const std::vector<double> &x, size_t width) {
  Arrays result(1);
  for (size_t row = 0; row < x.size(); row += width) {
    double sum = 0;
    for (size_t i = 0; i < width; ++i)
      sum += std::exp(x[row + i]);
    for (size_t i = 0; i < width; ++i)
      result[0].push_back(std::exp(x[row + i]) / sum);
  }
  return result;
}

Sample softmaxSample(std::string name, std::vector<int64_t> shape) {
  return {"softmax_" + name, {floats(shape)},
          [](TapeBuilder &t, ValueRange x) -> Value { return t.builder().create<SoftmaxOp>(t.loc(), x[0]); },
          [=](const Arrays &x) { return softmax(x[0], shape.back()); }};
}

constexpr double kEpsilon = 1e-5;

Arrays layerNorm(const Arrays &x) {
  const std::vector<double> &values = x[0], &gamma = x[1], &beta = x[2];
  size_t width = gamma.size();
  Arrays result(3);
  for (size_t row = 0; row < values.size(); row += width) {
    double mean = 0, variance = 0;
    for (size_t i = 0; i < width; ++i)
      mean += values[row + i] / width;
    for (size_t i = 0; i < width; ++i)
      variance += (values[row + i] - mean) * (values[row + i] - mean) / width;
    double rstd = 1 / std::sqrt(variance + kEpsilon);
    for (size_t i = 0; i < width; ++i)
      result[0].push_back((values[row + i] - mean) * rstd * gamma[i] + beta[i]);
    result[1].push_back(mean);
    result[2].push_back(rstd);
  }
  return result;
}

Arrays rmsNorm(const Arrays &x) {
  size_t width = x[1].size();
  Arrays result(2);
  for (size_t row = 0; row < x[0].size(); row += width) {
    double squares = 0;
    for (size_t i = 0; i < width; ++i)
      squares += x[0][row + i] * x[0][row + i];
    double size = std::sqrt(squares / width + kEpsilon);
    for (size_t i = 0; i < width; ++i)
      result[0].push_back(x[0][row + i] / size * x[1][i]);
    result[1].push_back(1 / size);
  }
  return result;
}

Sample rmsNormSample(std::string name, std::vector<int64_t> shape) {
  return {"rms_norm_" + name, {floats(shape), floats({shape.back()})},
          [](TapeBuilder &t, ValueRange x) -> Value {
            return t.builder().create<RmsNormOp>(t.loc(), x[0], x[1], APFloat(kEpsilon)).getResult();
          },
          rmsNorm};
}

Sample layerNormSample(std::string name, std::vector<int64_t> shape) {
  return {"layer_norm_" + name, {floats(shape), floats({shape.back()}), floats({shape.back()})},
          [](TapeBuilder &t, ValueRange x) -> Value {
            return t.builder().create<LayerNormOp>(t.loc(), x[0], x[1], x[2], APFloat(kEpsilon)).getResult();
          },
          layerNorm};
}
} // namespace

std::vector<Sample> normalizationSamples() {
  return {
      softmaxSample("rows", {5, 7}),
      softmaxSample("heads", {2, 2, 3, 3}),
      softmaxSample("vector", {9}),
      softmaxSample("one_class", {4, 1}),
      {"softmax_large", {{"f32", {2, 3}, 0, 0, {1000, 1001, 999, -2000, -2000, -2000}}},
       [](TapeBuilder &t, ValueRange x) -> Value { return t.builder().create<SoftmaxOp>(t.loc(), x[0]); },
       [](const Arrays &) { return softmax({0, 1, -1, 0, 0, 0}, 3); },
       {}},
      {"softmax_grad", {floats({4, 3}, 0, 1), floats({4, 3})},
       [](TapeBuilder &t, ValueRange x) -> Value { return t.builder().create<SoftmaxGradOp>(t.loc(), x[0], x[1]); },
       [](const Arrays &x) {
         Arrays result(1);
         for (size_t row = 0; row < 12; row += 3) {
           double sum = 0;
           for (size_t i = row; i < row + 3; ++i)
             sum += x[0][i] * x[1][i];
           for (size_t i = row; i < row + 3; ++i)
             result[0].push_back(x[0][i] * (x[1][i] - sum));
         }
         return result;
       }},
      rmsNormSample("rows", {5, 7}),
      rmsNormSample("tokens", {2, 3, 8}),
      rmsNormSample("vector", {16}),
      // Its values are checked by the finite differences of rms_norm.
      {"rms_norm_grad", {floats({3, 5}), floats({5}), floats({3}, 0.5, 2), floats({3, 5})},
       [](TapeBuilder &t, ValueRange x) -> Value {
         return t.builder().create<RmsNormGradOp>(t.loc(), x[0], x[1], x[2], x[3]);
       }},
      {"rms_norm_param_grad", {floats({3, 5}), floats({3}, 0.5, 2), floats({3, 5})},
       [](TapeBuilder &t, ValueRange x) -> Value {
         return t.builder().create<RmsNormParamGradOp>(t.loc(), x[0], x[1], x[2]);
       },
       [](const Arrays &x) {
         Arrays result(1, std::vector<double>(5));
         for (size_t i = 0; i < 15; ++i)
           result[0][i % 5] += x[2][i] * x[0][i] * x[1][i / 5];
         return result;
       }},
      layerNormSample("rows", {5, 7}),
      layerNormSample("tokens", {2, 3, 8}),
      layerNormSample("vector", {16}),
      // The values of both gradients are checked by the finite differences of layer_norm.
      {"layer_norm_grad", {floats({3, 5}), floats({5}), floats({3}), floats({3}, 0.5, 2), floats({3, 5})},
       [](TapeBuilder &t, ValueRange x) -> Value {
         return t.builder().create<LayerNormGradOp>(t.loc(), x[0], x[1], x[2], x[3], x[4]);
       }},
      {"layer_norm_param_grad", {floats({3, 5}), floats({3}), floats({3}, 0.5, 2), floats({3, 5})},
       [](TapeBuilder &t, ValueRange x) -> Value {
         return t.builder().create<LayerNormParamGradOp>(t.loc(), x[0], x[1], x[2], x[3]).getResult(0);
       },
       [](const Arrays &x) {
         Arrays result(2, std::vector<double>(5));
         for (size_t row = 0; row < 3; ++row)
           for (size_t i = 0; i < 5; ++i) {
             double dy = x[3][row * 5 + i];
             result[0][i] += dy * (x[0][row * 5 + i] - x[1][row]) * x[2][row];
             result[1][i] += dy;
           }
         return result;
       }},
  };
}

} // namespace tapeout::ops
