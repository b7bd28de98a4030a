#include "ir/tape/Attention.h"

#include "runtime/base/Philox.h"
#include "tests/ops/Sample.h"

#include <algorithm>
#include <cmath>

using namespace mlir;
using namespace tapeout::tape;

namespace tapeout::ops {

namespace {
constexpr double kSeed = 12345678901, kStep = 3;
constexpr uint64_t kStream = 5;

struct Case {
  size_t batch, queries, keys, heads, size;
  bool causal = false;
  double dropout = 0;
  size_t group = 1; // heads of the query per head of the keys
  std::vector<double> lengths = {}; // of the sequences; none: no padding

  std::vector<int64_t> shape(size_t tokens, size_t heads) const {
    return {int64_t(batch), int64_t(tokens), int64_t(heads), int64_t(size)};
  }
  double scale() const { return 1 / std::sqrt(double(size)); }
};

Arrays attention(const Case &c, const Arrays &x) {
  auto element = [&](size_t b, size_t token, size_t head, size_t i) {
    return ((b * c.queries + token) * c.heads + head) * c.size + i;
  };
  auto keyElement = [&](size_t b, size_t token, size_t head, size_t i) {
    return ((b * c.keys + token) * (c.heads / c.group) + head / c.group) * c.size + i;
  };
  Arrays result = {std::vector<double>(x[0].size()), std::vector<double>(c.batch * c.heads * c.queries)};
  for (size_t b = 0; b < c.batch; ++b)
    for (size_t h = 0; h < c.heads; ++h)
      for (size_t q = 0; q < c.queries; ++q) {
        size_t visible = c.causal ? q + 1 : c.keys, row = (b * c.heads + h) * c.queries + q;
        size_t length = c.lengths.empty() ? c.queries : size_t(std::max(1.0, c.lengths[b]));
        bool isPadding = q >= length;
        if (!c.lengths.empty() && !isPadding)
          visible = std::min(visible, length);
        std::vector<double> weights;
        double sum = 0;
        for (size_t k = 0; k < visible; ++k) {
          double score = 0;
          for (size_t i = 0; i < c.size; ++i)
            score += x[0][element(b, q, h, i)] * x[1][keyElement(b, k, h, i)];
          sum += weights.emplace_back(std::exp(score * c.scale()));
        }
        result[1][row] = std::log(sum); // of padding it means nothing: this is what decomposition gives
        for (size_t k = 0; k < visible && !isPadding; ++k) {
          double probability = weights[k] / sum;
          PhiloxCounter counter = {uint32_t(row * c.keys + k), 0, uint32_t(kStep), uint32_t(kStream)};
          if (philox4x32(counter, philoxKey(uint64_t(kSeed)))[0] < c.dropout * 0x1p32)
            continue;
          for (size_t i = 0; i < c.size; ++i)
            result[0][element(b, q, h, i)] += probability / (1 - c.dropout) * x[2][keyElement(b, k, h, i)];
        }
      }
  return result;
}

Sample sample(std::string name, Case c) {
  std::vector<Input> inputs = {floats(c.shape(c.queries, c.heads)), floats(c.shape(c.keys, c.heads / c.group)),
                               floats(c.shape(c.keys, c.heads / c.group))};
  if (!c.lengths.empty()) {
    Input lengths{"i32", {int64_t(c.batch)}};
    lengths.values = c.lengths;
    inputs.push_back(lengths);
  }
  if (c.dropout > 0) {
    inputs.push_back(scalar("i64", kSeed));
    inputs.push_back(scalar("i64", kStep));
  }
  return {"attention_" + name, inputs,
          [c](TapeBuilder &t, ValueRange x) -> Value {
            Value lengths = c.lengths.empty() ? Value() : x[3];
            Value seed = c.dropout > 0 ? x[x.size() - 2] : Value(), step = c.dropout > 0 ? x.back() : Value();
            return t.builder()
                .create<AttentionOp>(t.loc(), x[0], x[1], x[2], lengths, seed, step, c.causal, APFloat(c.scale()),
                                     APFloat(c.dropout), kStream)
                .getResult();
          },
          [c](const Arrays &x) { return attention(c, x); }};
}
} // namespace

std::vector<Sample> attentionSamples() {
  std::vector<int64_t> shape = {2, 3, 2, 5};
  return {
      sample("full", {2, 3, 5, 2, 4}),
      sample("causal", {2, 5, 5, 3, 2, true}),
      sample("one_token", {1, 1, 1, 1, 3, true}),
      sample("dropout", {2, 3, 7, 2, 4, false, 0.3}),
      sample("causal_dropout", {1, 6, 6, 2, 3, true, 0.25}),
      sample("grouped", {2, 3, 5, 4, 2, false, 0, 2}),
      sample("one_key_head", {1, 4, 4, 3, 3, true, 0, 3}),
      sample("grouped_dropout", {2, 4, 4, 6, 2, true, 0.25, 2}),
      sample("padded", {4, 3, 3, 2, 4, false, 0, 1, {2, 3, 0, 1}}),
      sample("padded_causal", {2, 4, 4, 4, 3, true, 0, 2, {3, 1}}),
      sample("padded_dropout", {2, 5, 5, 2, 3, false, 0.3, 1, {2, 7}}),
      // Its values are checked by the finite differences of attention.
      {"attention_grad",
       {floats(shape), floats(shape), floats(shape), floats(shape), floats({2, 2, 3}, 3, 4), floats(shape)},
       [](TapeBuilder &t, ValueRange x) -> Value {
         return t.builder()
             .create<AttentionGradOp>(t.loc(), x[0], x[1], x[2], x[3], x[4], x[5], Value(), Value(), Value(), true, APFloat(0.5),
                                      APFloat(0.0), 0)
             .getQueryGradient();
       }},
  };
}

} // namespace tapeout::ops
