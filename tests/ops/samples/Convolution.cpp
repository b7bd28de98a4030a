#include "ir/tape/Convolution.h"

#include "tests/ops/Sample.h"

using namespace mlir;
using namespace tapeout::tape;

namespace tapeout::ops {

namespace {
using Ints = std::vector<int64_t>;
using Doubles = std::vector<double>;

struct Convolution {
  Ints input, weight, strides, padding; // padding: top, bottom, left, right

  int64_t outHeight() const { return (input[2] + padding[0] + padding[1] - weight[2]) / strides[0] + 1; }
  int64_t outWidth() const { return (input[3] + padding[2] + padding[3] - weight[3]) / strides[1] + 1; }
  Ints result() const { return {input[0], weight[0], outHeight(), outWidth()}; }
  static size_t count(const Ints &shape) { return shape[0] * shape[1] * shape[2] * shape[3]; }

  /// f(input element, weight element, result element) for every product, one index at a time.
  template <typename F> void forEachProduct(F f) const {
    Ints out = result();
    for (int64_t n = 0; n < out[0]; ++n)
      for (int64_t o = 0; o < out[1]; ++o)
        for (int64_t c = 0; c < input[1]; ++c)
          for (int64_t h = 0; h < input[2]; ++h)
            for (int64_t w = 0; w < input[3]; ++w)
              for (int64_t oh = 0; oh < out[2]; ++oh)
                for (int64_t ow = 0; ow < out[3]; ++ow) {
                  int64_t r = h + padding[0] - oh * strides[0], s = w + padding[2] - ow * strides[1];
                  if (r >= 0 && r < weight[2] && s >= 0 && s < weight[3])
                    f(((n * input[1] + c) * input[2] + h) * input[3] + w,
                      ((o * weight[1] + c) * weight[2] + r) * weight[3] + s,
                      ((n * out[1] + o) * out[2] + oh) * out[3] + ow);
                }
  }
};

Sample forward(std::string name, const Convolution &c) {
  return {"convolution_" + name,
          {floats(c.input), floats(c.weight)},
          [=](TapeBuilder &t, ValueRange x) -> Value {
            return t.builder().create<ConvolutionOp>(t.loc(), x[0], x[1], c.strides, c.padding);
          },
          [=](const Arrays &x) {
            Arrays result{Doubles(Convolution::count(c.result()))};
            c.forEachProduct([&](int64_t i, int64_t j, int64_t k) { result[0][k] += x[0][i] * x[1][j]; });
            return result;
          }};
}

Sample inputGrad(std::string name, const Convolution &c) {
  return {"convolution_input_grad_" + name,
          {floats(c.result()), floats(c.weight)},
          [=](TapeBuilder &t, ValueRange x) -> Value {
            return t.builder().create<ConvolutionInputGradOp>(t.loc(), x[0], x[1], c.input, c.strides, c.padding);
          },
          [=](const Arrays &x) {
            Arrays result{Doubles(Convolution::count(c.input))};
            c.forEachProduct([&](int64_t i, int64_t j, int64_t k) { result[0][i] += x[0][k] * x[1][j]; });
            return result;
          }};
}

Sample weightGrad(std::string name, const Convolution &c, int64_t parts) {
  return {"convolution_weight_grad_" + name,
          {floats(c.input), floats(c.result())},
          [=](TapeBuilder &t, ValueRange x) -> Value {
            return t.builder().create<ConvolutionWeightGradOp>(t.loc(), x[0], x[1], ArrayRef(c.weight).drop_front(2),
                                                               c.strides, c.padding, parts, TypeAttr());
          },
          [=](const Arrays &x) {
            int64_t plane = c.outHeight() * c.outWidth(), positions = c.input[0] * plane;
            int64_t length = (positions + parts - 1) / parts;
            Arrays result{Doubles(parts * Convolution::count(c.weight))};
            c.forEachProduct([&](int64_t i, int64_t j, int64_t k) {
              int64_t position = k / (plane * c.weight[0]) * plane + k % plane;
              result[0][position / length * Convolution::count(c.weight) + j] += x[0][i] * x[1][k];
            });
            return result;
          }};
}
} // namespace

std::vector<Sample> convolutionSamples() {
  const Convolution same{{2, 3, 5, 4}, {4, 3, 3, 3}, {1, 1}, {1, 1, 1, 1}};
  const Convolution strided{{2, 2, 7, 6}, {3, 2, 3, 2}, {2, 3}, {1, 0, 0, 1}};
  const Convolution pointwise{{2, 4, 3, 3}, {2, 4, 1, 1}, {1, 1}, {0, 0, 0, 0}};
  const Convolution up{{2, 2, 6, 4}, {3, 2, 2, 2}, {2, 2}, {0, 0, 0, 0}};
  return {
      forward("same", same),
      forward("strided", strided),
      forward("pointwise", pointwise),
      inputGrad("same", same),
      inputGrad("strided", strided),
      inputGrad("transposed", up),
      weightGrad("same", same, 1),
      weightGrad("strided", strided, 1),
      weightGrad("parts", same, 3),
      weightGrad("split", {{5, 1, 32, 32}, {2, 1, 2, 2}, {1, 1}, {0, 1, 0, 1}}, 1), // decomposes into parts
  };
}

} // namespace tapeout::ops
