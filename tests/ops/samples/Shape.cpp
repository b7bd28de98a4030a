#include "ir/tape/Shape.h"

#include "runtime/base/Hyperparameters.h"
#include "tests/ops/Sample.h"

#include <numeric>

using namespace mlir;
using namespace tapeout::tape;

namespace tapeout::ops {

namespace {
Sample constant(std::string element, double value, double expected) {
  return {"constant_" + element, {},
          [=](TapeBuilder &t, ValueRange) {
            OpBuilder &b = t.builder();
            Type type = element == "f32"   ? Type(b.getF32Type())
                        : element == "i32" ? Type(b.getI32Type())
                                           : b.getI1Type();
            return t.constant(type, value);
          },
          [=](const Arrays &) { return Arrays{{expected}}; }};
}

// The result element at (i, j, k) of a rank-3 operand [a, b, c].
using Index3 = std::function<size_t(size_t, size_t, size_t)>;
Arrays permuted(const std::vector<double> &x, size_t a, size_t b, size_t c, const Index3 &source) {
  Arrays result(1);
  for (size_t i = 0; i < a; ++i)
    for (size_t j = 0; j < b; ++j)
      for (size_t k = 0; k < c; ++k)
        result[0].push_back(x[source(i, j, k)]);
  return result;
}
} // namespace

std::vector<Sample> shapeSamples() {
  std::vector<Sample> samples;
  samples.push_back(constant("f32", 0.1, 0.1)); // fp64 keeps all digits
  samples.push_back(constant("i32", -7, -7));
  samples.push_back(constant("i1", 1, 1));
  samples.push_back({"iota_first", {}, [](TapeBuilder &t, ValueRange) { return t.iota({3, 2}, 0); },
                     [](const Arrays &) { return Arrays{{0, 0, 1, 1, 2, 2}}; }});
  samples.push_back({"iota_middle", {}, [](TapeBuilder &t, ValueRange) { return t.iota({2, 2, 2}, 1); },
                     [](const Arrays &) { return Arrays{{0, 0, 1, 1, 0, 0, 1, 1}}; }});
  samples.push_back({"iota_long", {}, [](TapeBuilder &t, ValueRange) { return t.iota({601}, 0); }, [](const Arrays &) {
                       Arrays result(1, std::vector<double>(601));
                       std::iota(result[0].begin(), result[0].end(), 0);
                       return result;
                     }});

  samples.push_back({"reshape",
                     {floats({3, 4, 5})},
                     [](TapeBuilder &t, ValueRange x) {
                       return t.reshape(x[0], {6, 10});
                     },
                     [](const Arrays &x) { return x; }});
  samples.push_back({"reshape_to_scalar",
                     {floats({1, 1})},
                     [](TapeBuilder &t, ValueRange x) { return t.reshape(x[0], {}); },
                     [](const Arrays &x) { return x; }});
  samples.push_back(
      {"transpose_matrix",
       {floats({3, 5})},
       [](TapeBuilder &t, ValueRange x) {
         return t.transpose(x[0], {1, 0});
       },
       [](const Arrays &x) { return permuted(x[0], 1, 5, 3, [](size_t, size_t j, size_t k) { return k * 5 + j; }); }});
  samples.push_back({"transpose_cycle", {floats({2, 3, 5})},
                     [](TapeBuilder &t, ValueRange x) { return t.transpose(x[0], {2, 0, 1}); },
                     [](const Arrays &x) {
                       return permuted(x[0], 5, 2, 3, [](size_t i, size_t j, size_t k) { return j * 15 + k * 5 + i; });
                     }});
  samples.push_back({"transpose_integers", {integers({2, 3}, 0, 99)},
                     [](TapeBuilder &t, ValueRange x) { return t.transpose(x[0], {1, 0}); },
                     [](const Arrays &x) {
                       return permuted(x[0], 1, 3, 2, [](size_t, size_t j, size_t k) { return k * 3 + j; });
                     },
                     {}});

  samples.push_back({"broadcast_scalar",
                     {floats({})},
                     [](TapeBuilder &t, ValueRange x) {
                       return t.broadcast(x[0], {2, 3}, {});
                     },
                     [](const Arrays &x) { return Arrays{std::vector<double>(6, x[0][0])}; }});
  samples.push_back(
      {"broadcast_rows",
       {floats({3})},
       [](TapeBuilder &t, ValueRange x) {
         return t.broadcast(x[0], {3, 5}, {0});
       },
       [](const Arrays &x) { return permuted(x[0], 1, 3, 5, [](size_t, size_t j, size_t) { return j; }); }});
  samples.push_back({"broadcast_middle", {floats({3})},
                     [](TapeBuilder &t, ValueRange x) { return t.broadcast(x[0], {2, 3, 5}, {1}); },
                     [](const Arrays &x) {
                       return permuted(x[0], 2, 3, 5, [](size_t, size_t j, size_t) { return j; });
                     }});
  samples.push_back({"broadcast_outer", {floats({2, 5})},
                     [](TapeBuilder &t, ValueRange x) { return t.broadcast(x[0], {2, 3, 5}, {0, 2}); },
                     [](const Arrays &x) {
                       return permuted(x[0], 2, 3, 5, [](size_t i, size_t, size_t k) { return i * 5 + k; });
                     }});
  auto slice = [](std::vector<int64_t> starts, std::vector<int64_t> limits) {
    return [=](TapeBuilder &t, ValueRange x) { return t.slice(x[0], starts, limits); };
  };
  samples.push_back({"slice_middle", {floats({2, 5, 3})}, slice({0, 1, 0}, {2, 4, 3}), [](const Arrays &x) {
                       return permuted(x[0], 2, 3, 3, [](size_t i, size_t j, size_t k) { return i * 15 + (j + 1) * 3 + k; });
                     }});
  samples.push_back({"slice_every_dimension", {floats({3, 4, 5})}, slice({1, 2, 0}, {3, 4, 3}), [](const Arrays &x) {
                       return permuted(x[0], 2, 2, 3, [](size_t i, size_t j, size_t k) { return (i + 1) * 20 + (j + 2) * 5 + k; });
                     }});
  samples.push_back({"slice_first", {floats({4, 3})}, slice({0, 0}, {2, 3}), [](const Arrays &x) {
                       return permuted(x[0], 1, 2, 3, [](size_t, size_t j, size_t k) { return j * 3 + k; });
                     }});
  samples.push_back({"slice_integers", {integers({7}, 0, 99)}, slice({5}, {6}),
                     [](const Arrays &x) { return Arrays{{x[0][5]}}; }, {}});
  samples.push_back({"hyperparameter", {{"f64", {int64_t(kConfigSlotLength)}, 0, 1}},
                     [](TapeBuilder &t, ValueRange x) -> Value {
                       return t.builder().create<HyperparameterOp>(t.loc(), x[0], uint64_t(Hyperparameter::Beta2));
                     },
                     [](const Arrays &x) { return Arrays{{x[0][size_t(Hyperparameter::Beta2)]}}; }});

  auto split = [](int64_t dimension) {
    return [dimension](TapeBuilder &t, ValueRange x) -> Value {
      return t.builder().create<SplitOp>(t.loc(), x[0], dimension, 3).getResult(0);
    };
  };
  samples.push_back({"split_last", {floats({2, 6})}, split(1),
                     [](const Arrays &x) {
                       const std::vector<double> &v = x[0];
                       return Arrays{{v[0], v[1], v[6], v[7]}, {v[2], v[3], v[8], v[9]}, {v[4], v[5], v[10], v[11]}};
                     },
                     {0, 1, 2}});
  samples.push_back({"split_first_partial_gradient", {floats({3, 2})}, split(0),
                     [](const Arrays &x) {
                       const std::vector<double> &v = x[0];
                       return Arrays{{v[0], v[1]}, {v[2], v[3]}, {v[4], v[5]}};
                     },
                     {1}});
  auto concatenate = [](int64_t dimension) {
    return [dimension](TapeBuilder &t, ValueRange x) -> Value {
      return t.builder().create<ConcatenateOp>(t.loc(), x, dimension);
    };
  };
  samples.push_back({"concatenate_last", {floats({2, 2}), floats({2, 2})}, concatenate(1), [](const Arrays &x) {
                       const auto &a = x[0], &b = x[1];
                       return Arrays{{a[0], a[1], b[0], b[1], a[2], a[3], b[2], b[3]}};
                     }});
  samples.push_back(
      {"concatenate_first", {floats({1, 3}), floats({1, 3}), floats({1, 3})}, concatenate(0), [](const Arrays &x) {
         Arrays result(1);
         for (const auto &part : x)
           result[0].insert(result[0].end(), part.begin(), part.end());
         return result;
       }});
  samples.push_back({"concatenate_of_different_lengths", {floats({2, 1}), floats({2, 3}), floats({2, 2})}, concatenate(1),
                     [](const Arrays &x) {
                       Arrays result(1);
                       for (size_t row = 0; row < 2; ++row)
                         for (size_t part = 0; part < 3; ++part)
                           for (size_t i = 0, length = x[part].size() / 2; i < length; ++i)
                             result[0].push_back(x[part][row * length + i]);
                       return result;
                     }});
  return samples;
}

} // namespace tapeout::ops
