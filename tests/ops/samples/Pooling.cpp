#include "ir/tape/Pooling.h"

#include "tests/ops/Sample.h"

#include <cmath>

using namespace mlir;
using namespace tapeout::tape;

namespace tapeout::ops {

namespace {
using Ints = std::vector<int64_t>;
using Doubles = std::vector<double>;

struct Pooling {
  Ints input, window, strides, padding; // padding: top, bottom, left, right

  Ints result() const {
    return {input[0], input[1], (input[2] + padding[0] + padding[1] - window[0]) / strides[0] + 1,
            (input[3] + padding[2] + padding[3] - window[1]) / strides[1] + 1};
  }
  static size_t count(const Ints &shape) { return shape[0] * shape[1] * shape[2] * shape[3]; }

  /// f(input element, result element, number in the window), one element of the input at a time.
  template <typename F> void forEachElement(F f) const {
    Ints out = result();
    for (int64_t plane = 0; plane < input[0] * input[1]; ++plane)
      for (int64_t h = 0; h < input[2]; ++h)
        for (int64_t w = 0; w < input[3]; ++w)
          for (int64_t oh = 0; oh < out[2]; ++oh)
            for (int64_t ow = 0; ow < out[3]; ++ow) {
              int64_t r = h + padding[0] - oh * strides[0], s = w + padding[2] - ow * strides[1];
              if (r >= 0 && r < window[0] && s >= 0 && s < window[1])
                f((plane * input[2] + h) * input[3] + w, (plane * out[2] + oh) * out[3] + ow, r * window[1] + s);
            }
  }
};

Sample maxPool(std::string name, const Pooling &p, Input input) {
  return {"max_pool_" + name,
          {input},
          [=](TapeBuilder &t, ValueRange x) -> Value {
            return t.builder().create<MaxPoolOp>(t.loc(), x[0], p.window, p.strides, p.padding).getResult();
          },
          [=](const Arrays &x) {
            size_t count = Pooling::count(p.result());
            Arrays result{Doubles(count, -INFINITY), Doubles(count)};
            p.forEachElement([&](int64_t i, int64_t k, int64_t tap) {
              if (x[0][i] > result[0][k]) {
                result[0][k] = x[0][i];
                result[1][k] = static_cast<double>(tap);
              }
            });
            return result;
          }};
}

Sample avgPool(std::string name, const Pooling &p) {
  double size = static_cast<double>(p.window[0] * p.window[1]);
  return {"avg_pool_" + name,
          {floats(p.input)},
          [=](TapeBuilder &t, ValueRange x) -> Value {
            return t.builder().create<AvgPoolOp>(t.loc(), x[0], p.window, p.strides, p.padding);
          },
          [=](const Arrays &x) {
            Arrays result{Doubles(Pooling::count(p.result()))};
            p.forEachElement([&](int64_t i, int64_t k, int64_t) { result[0][k] += x[0][i] / size; });
            return result;
          }};
}

Sample avgPoolGrad(std::string name, const Pooling &p) {
  double size = static_cast<double>(p.window[0] * p.window[1]);
  return {"avg_pool_grad_" + name,
          {floats(p.result())},
          [=](TapeBuilder &t, ValueRange x) -> Value {
            return t.builder().create<AvgPoolGradOp>(t.loc(), x[0], p.input, p.window, p.strides, p.padding);
          },
          [=](const Arrays &x) {
            Arrays result{Doubles(Pooling::count(p.input))};
            p.forEachElement([&](int64_t i, int64_t k, int64_t) { result[0][i] += x[0][k] / size; });
            return result;
          }};
}
} // namespace

std::vector<Sample> poolingSamples() {
  const Pooling halves{{2, 3, 6, 4}, {2, 2}, {2, 2}, {0, 0, 0, 0}};
  const Pooling overlapping{{2, 2, 7, 6}, {3, 2}, {2, 1}, {1, 1, 0, 1}};
  const Pooling whole{{2, 3, 4, 5}, {4, 5}, {1, 1}, {0, 0, 0, 0}};
  return {
      maxPool("halves", halves, floats(halves.input)),
      maxPool("overlapping", overlapping, floats(overlapping.input)),
      // The first of equal elements is the maximum, and only it has a gradient: no finite differences there.
      [&] {
        Sample ties = maxPool("ties", {{1, 1, 2, 6}, {2, 2}, {2, 2}, {0, 0, 0, 0}},
                              {"f32", {1, 1, 2, 6}, 0, 0, {1, 1, 0, 2, -1, -1, 1, 1, 2, 2, -1, 0}});
        ties.gradientsOf = {};
        return ties;
      }(),
      {"max_pool_grad",
       {integers(halves.result(), 0, 3), floats(halves.result())},
       [=](TapeBuilder &t, ValueRange x) -> Value {
         return t.builder().create<MaxPoolGradOp>(t.loc(), x[0], x[1], halves.input, halves.window, halves.strides,
                                                  halves.padding);
       },
       [=](const Arrays &x) {
         Arrays result{Doubles(Pooling::count(halves.input))};
         halves.forEachElement([&](int64_t i, int64_t k, int64_t tap) {
           if (x[0][k] == static_cast<double>(tap))
             result[0][i] += x[1][k];
         });
         return result;
       }},
      avgPool("halves", halves),
      avgPool("overlapping", overlapping),
      avgPool("whole", whole),
      avgPoolGrad("overlapping", overlapping),
      avgPoolGrad("whole", whole),
  };
}

} // namespace tapeout::ops
