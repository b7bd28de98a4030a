#include "ir/tape/Elementwise.h"

#include "tests/ops/Sample.h"

#include <cmath>

using namespace mlir;
using namespace tapeout::tape;

namespace tapeout::ops {

namespace {
using Function1 = std::function<double(double)>;
using Function2 = std::function<double(double, double)>;

template <typename Op> Sample unary(std::string name, Function1 f, double low = -2, double high = 2) {
  return {name, {floats({3, 7}, low, high)},
          [](TapeBuilder &t, ValueRange x) -> Value { return t.builder().create<Op>(t.loc(), x[0]); },
          [f](const Arrays &x) { return mapUnary(x, f); }};
}

template <typename Op> Sample binary(std::string name, std::vector<Input> inputs, Function2 f) {
  return {name, inputs,
          [](TapeBuilder &t, ValueRange x) -> Value { return t.builder().create<Op>(t.loc(), x[0], x[1]); },
          [f](const Arrays &x) { return mapBinary(x, f); }};
}

Sample gelu(std::string kind, Function1 f) {
  return {"gelu_" + kind, {floats({5, 61}, -4, 4)},
          [kind](TapeBuilder &t, ValueRange x) -> Value {
            return t.builder().create<GeluOp>(t.loc(), x[0], t.builder().getStringAttr(kind));
          },
          [f](const Arrays &x) { return mapUnary(x, f); }};
}
Sample geluGrad(std::string kind, Function2 f) {
  return {"gelu_grad_" + kind, {floats({17}), floats({17})},
          [kind](TapeBuilder &t, ValueRange x) -> Value {
            return t.builder().create<GeluGradOp>(t.loc(), x[0], x[1], t.builder().getStringAttr(kind));
          },
          [f](const Arrays &x) { return mapBinary(x, f); }};
}

double silu(double x) { return 0.5 * x * (1 + std::tanh(0.5 * x)); }
double softplus(double x) { return std::max(x, 0.0) + std::log1p(std::exp(-std::abs(x))); }
double geluTanh(double x) { return 0.5 * x * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x))); }
double geluErf(double x) { return 0.5 * x * (1 + std::erf(x / std::sqrt(2.0))); }

Sample compare(std::string kind, Function2 f) {
  double nan = std::nan("");
  return {"compare_" + kind,
          {{"f32", {6}, 0, 0, {1, 2, 3, nan, -0.0, 5}}, {"f32", {6}, 0, 0, {2, 2, 2, 2, 0.0, nan}}},
          [kind](TapeBuilder &t, ValueRange x) { return t.compare(kind, x[0], x[1]); },
          [f](const Arrays &x) { return mapBinary(x, f); }};
}

Sample convert(std::string name, Input input, Type (*to)(MLIRContext *), Function1 f,
               std::vector<unsigned> gradientsOf = {}) {
  return {"convert_" + name, {input},
          [to](TapeBuilder &t, ValueRange x) -> Value {
            return t.builder().create<ConvertOp>(t.loc(), x[0], TypeAttr::get(to(x[0].getContext())));
          },
          [f](const Arrays &x) { return mapUnary(x, f); }, gradientsOf};
}
Type toF32(MLIRContext *context) { return Float32Type::get(context); }
Type toF64(MLIRContext *context) { return Float64Type::get(context); }
Type toBF16(MLIRContext *context) { return BFloat16Type::get(context); }
Type toI32(MLIRContext *context) { return IntegerType::get(context, 32); }
Type toI64(MLIRContext *context) { return IntegerType::get(context, 64); }
} // namespace

std::vector<Sample> elementwiseSamples() {
  std::vector<Sample> samples;
  // Each binary op: equal shapes, rank 0 on either side, rank 0 on both.
  struct Binary {
    std::string suffix;
    std::vector<int64_t> lhs, rhs;
  };
  for (const Binary &shape : {Binary{"", {3, 5}, {3, 5}}, Binary{"_scalar_rhs", {7, 3}, {}},
                              Binary{"_scalar_lhs", {}, {13}}, Binary{"_scalars", {}, {}}}) {
    std::vector<Input> any = {floats(shape.lhs), floats(shape.rhs)};
    std::vector<Input> positive = {floats(shape.lhs), floats(shape.rhs, 0.5, 3)};
    samples.push_back(binary<AddOp>("add" + shape.suffix, any, [](double a, double b) { return a + b; }));
    samples.push_back(binary<SubtractOp>("subtract" + shape.suffix, any, [](double a, double b) { return a - b; }));
    samples.push_back(binary<MultiplyOp>("multiply" + shape.suffix, any, [](double a, double b) { return a * b; }));
    samples.push_back(binary<DivideOp>("divide" + shape.suffix, positive, [](double a, double b) { return a / b; }));
    samples.push_back(
        binary<MaximumOp>("maximum" + shape.suffix, any, [](double a, double b) { return a > b ? a : b; }));
  }
  // Integers; an odd number of elements beyond one block of the interpreter.
  std::vector<Input> numbers = {integers({3, 259}, -100, 100), integers({3, 259}, 1, 9)};
  for (Sample sample :
       {binary<AddOp>("add_integers", numbers, [](double a, double b) { return a + b; }),
        binary<SubtractOp>("subtract_integers", numbers, [](double a, double b) { return a - b; }),
        binary<MultiplyOp>("multiply_integers", numbers, [](double a, double b) { return a * b; }),
        binary<DivideOp>("divide_integers", numbers, [](double a, double b) { return std::trunc(a / b); }),
        binary<MaximumOp>("maximum_integers", numbers, [](double a, double b) { return a > b ? a : b; })}) {
    sample.gradientsOf = {};
    samples.push_back(sample);
  }
  Sample nan = binary<MaximumOp>("maximum_nan",
                                 {{"f32", {3}, 0, 0, {std::nan(""), 1, 2}}, {"f32", {3}, 0, 0, {1, std::nan(""), 3}}},
                                 [](double a, double b) { return std::isnan(a + b) ? std::nan("") : std::max(a, b); });
  nan.gradientsOf = {};
  samples.push_back(nan);

  samples.push_back(unary<NegateOp>("negate", [](double x) { return -x; }));
  samples.push_back(unary<ExpOp>("exp", [](double x) { return std::exp(x); }));
  samples.push_back(unary<LogOp>("log", [](double x) { return std::log(x); }, 0.2, 3));
  samples.push_back(unary<SqrtOp>("sqrt", [](double x) { return std::sqrt(x); }, 0.2, 3));
  samples.push_back(unary<RsqrtOp>("rsqrt", [](double x) { return 1 / std::sqrt(x); }, 0.2, 3));
  samples.push_back(unary<TanhOp>("tanh", [](double x) { return std::tanh(x); }));
  samples.push_back(unary<LogisticOp>("logistic", [](double x) { return 1 / (1 + std::exp(-x)); }));
  samples.push_back(unary<SoftplusOp>("softplus", softplus, -40, 40));
  samples.push_back(unary<ReluOp>("relu", [](double x) { return x > 0 ? x : 0; }));
  samples.push_back(unary<SiluOp>("silu", silu, -20, 20));
  samples.push_back({"silu_grad", {floats({17}, -9, 9), floats({17})},
                     [](TapeBuilder &t, ValueRange x) -> Value { return t.builder().create<SiluGradOp>(t.loc(), x[0], x[1]); },
                     [](const Arrays &x) {
                       return mapBinary(x, [](double x, double dy) { // by the derivative of tanh
                         double t = std::tanh(0.5 * x);
                         return dy * (0.5 * (1 + t) + 0.25 * x * (1 - t * t));
                       });
                     }});
  samples.push_back(gelu("tanh", geluTanh));
  samples.push_back(gelu("none", geluErf));
  samples.push_back(geluGrad("tanh", [](double x, double dy) {
    double inner = std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x), t = std::tanh(inner);
    return dy * (0.5 * (1 + t) + 0.5 * x * (1 - t * t) * std::sqrt(2 / M_PI) * (1 + 3 * 0.044715 * x * x));
  }));
  samples.push_back(geluGrad("none", [](double x, double dy) {
    return dy * (0.5 * (1 + std::erf(x / std::sqrt(2.0))) + x * std::exp(-0.5 * x * x) / std::sqrt(2 * M_PI));
  }));

  samples.push_back(compare("eq", [](double a, double b) { return a == b; }));
  samples.push_back(compare("ne", [](double a, double b) { return a != b; }));
  samples.push_back(compare("lt", [](double a, double b) { return a < b; }));
  samples.push_back(compare("le", [](double a, double b) { return a <= b; }));
  samples.push_back(compare("gt", [](double a, double b) { return a > b; }));
  samples.push_back(compare("ge", [](double a, double b) { return a >= b; }));
  samples.push_back({"compare_integers", {integers({40}, -3, 3), integers({}, 0, 0)},
                     [](TapeBuilder &t, ValueRange x) { return t.compare("lt", x[0], x[1]); },
                     [](const Arrays &x) { return mapBinary(x, [](double a, double b) { return a < b; }); }});

  auto select = [](TapeBuilder &t, ValueRange x) { return t.select(x[0], x[1], x[2]); };
  auto selected = [](const Arrays &x) {
    Arrays result(1);
    for (size_t i = 0; i < std::max({x[0].size(), x[1].size(), x[2].size()}); ++i)
      result[0].push_back(at(x[0], i) != 0 ? at(x[1], i) : at(x[2], i));
    return result;
  };
  samples.push_back({"select", {booleans({5, 3}), floats({5, 3}), floats({5, 3})}, select, selected});
  samples.push_back({"select_scalar_predicate", {scalar("i1", 1), floats({9}), floats({9})}, select, selected});
  samples.push_back({"select_scalar_values", {booleans({11}), floats({}), floats({})}, select, selected});
  samples.push_back(
      {"select_integers", {booleans({11}), integers({11}, -5, 5), integers({}, 7, 7)}, select, selected, {}});

  auto same = [](double x) { return x; };
  samples.push_back(convert("f32_to_f64", floats({3, 3}), toF64, same, {0}));
  samples.push_back(convert("f32_to_bf16", floats({3, 3}), toBF16, same, {0}));
  samples.push_back(convert("bf16_to_f32", {"bf16", {3, 3}, -2, 2}, toF32, same, {0}));
  samples.push_back(convert("f16_to_bf16", {"f16", {3, 3}, -2, 2}, toBF16, same, {0}));
  samples.push_back(
      convert("f32_to_i32", {"f32", {4}, 0, 0, {-2.7, -0.5, 0.5, 2.7}}, toI32, [](double x) { return std::trunc(x); }));
  samples.push_back(convert("i32_to_f32", integers({9}, -9, 9), toF32, same));
  samples.push_back(convert("i1_to_f32", booleans({9}), toF32, same));
  samples.push_back(convert("i1_to_i32", booleans({9}), toI32, same));
  samples.push_back(convert("i32_to_i64", integers({9}, -9, 9), toI64, same));
  samples.push_back(convert("i64_to_i32", {"i64", {9}, -9, 9}, toI32, same));
  return samples;
}

} // namespace tapeout::ops
