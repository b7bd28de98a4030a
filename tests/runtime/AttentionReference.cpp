#include "tests/runtime/AttentionReference.h"

#include "runtime/base/BFloat16.h"
#include "runtime/base/Hyperparameters.h"
#include "tests/runtime/PlanBuilder.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <cstring>

namespace tapeout::rt::test {

using Type = tapeout::ElementType;
using plan::SlotKind;

std::string AttentionShape::text() const {
  return fmt::format("{} {} {}x{}{} heads of {}, {} tokens{}{}", name(type), causal ? "causal" : "full", batch, heads,
                     keyHeads == heads ? "" : fmt::format(":{}", keyHeads), size, tokens,
                     lengths.empty() ? "" : fmt::format(" of which {}", fmt::join(lengths, ", ")),
                     dropout > 0 ? fmt::format(", dropout {}", dropout) : "");
}

uint64_t AttentionShape::scratchBytes(int64_t slices) const {
  const int64_t padded = (tokens + 127) / 128 * 128;
  return batch / slices * heads * (padded * padded * 2 + 4 * tokens * size) + batch * heads * tokens * 4 + (1 << 16);
}

uint64_t AttentionShape::nondeterministicScratchBytes() const {
  return batch * heads * tokens * (8 * size + 4) + (1 << 16); // half of it for gradients of shared keys
}

plan::PlanT nondeterministicAttentionPlan(const AttentionShape &shape) {
  plan::PlanT plan = attentionPlan(shape, shape.nondeterministicScratchBytes());
  plan.programs[0]->instructions[1]->body.AsAttention()->nondeterministic = true;
  return plan;
}

plan::PlanT attentionPlan(const AttentionShape &s, uint64_t scratchBytes) {
  PlanBuilder b;
  b.plan.target = "cuda";
  b.plan.layers = {"attention"};
  b.plan.model->name = "attention";
  b.plan.model->task = plan::Task::Regression;
  b.plan.model->batch = 1;
  b.plan.workspace_bytes = 32 << 20;
  b.slot("config", SlotKind::Config, plan::ElementType::F64, {kConfigSlotLength});
  auto type = static_cast<plan::ElementType>(s.type);
  auto rows = [&](const char *name, SlotKind kind, int64_t width) { return b.slot(name, kind, type, {s.batch, s.tokens, width}); };
  uint32_t qkv = rows("qkv", SlotKind::Input, s.packedWidth()), gradient = rows("do", SlotKind::Input, s.width());
  uint32_t result = rows("o", SlotKind::OptimizerState, s.width()), packed = rows("dqkv", SlotKind::OptimizerState, s.packedWidth());
  uint32_t lse = b.slot("lse", SlotKind::OptimizerState, plan::ElementType::F32, {s.batch, s.heads, s.tokens});
  uint32_t seed = b.slot("seed", SlotKind::Input, plan::ElementType::I64, {});
  uint32_t offset = b.slot("offset", SlotKind::Input, plan::ElementType::I64, {});
  uint32_t lengths = b.slot("lengths", SlotKind::Input, plan::ElementType::I32, {s.batch});
  uint32_t scratch = b.slot("scratch", SlotKind::Arena, plan::ElementType::F32, {static_cast<int64_t>(scratchBytes / sizeof(float))});

  auto headStride = [&](int64_t heads) { return heads == 1 ? 0 : s.size; }; // as the compiler has it
  auto whole = [&](uint32_t slot) {
    return plan::AttentionOperand(slot, 0, s.tokens * s.width(), s.width(), headStride(s.heads));
  };
  auto part = [&](uint32_t slot, int64_t firstHead) {
    return plan::AttentionOperand(slot, firstHead * s.size, s.tokens * s.packedWidth(), s.packedWidth(),
                                  headStride(firstHead == 0 ? s.heads : s.keyHeads));
  };
  plan::ProgramT &program = b.program("attention");
  for (bool backward : {false, true}) {
    plan::AttentionT attention;
    attention.backward = backward, attention.causal = s.causal, attention.scale = s.scale();
    attention.batch = s.batch, attention.heads = s.heads, attention.key_heads = s.keyHeads, attention.tokens = s.tokens;
    attention.head_size = s.size, attention.lse = lse;
    attention.operands = {part(qkv, 0), part(qkv, s.heads), part(qkv, s.heads + s.keyHeads), whole(result)};
    if (backward)
      for (const plan::AttentionOperand &operand :
           {whole(gradient), part(packed, 0), part(packed, s.heads), part(packed, s.heads + s.keyHeads)})
        attention.operands.push_back(operand);
    if (s.dropout > 0) {
      attention.dropout = std::make_unique<plan::AttentionDropoutT>();
      attention.dropout->rate = s.dropout, attention.dropout->seed = seed, attention.dropout->offset = offset;
    }
    if (!s.lengths.empty())
      attention.lengths = lengths;
    b.add(program, std::move(attention), 0, backward ? 2 : 0);
    if (backward)
      program.instructions.back()->scratch = scratch;
  }
  return std::move(b.plan);
}

std::vector<double> toDouble(Type type, const std::vector<uint8_t> &bytes) {
  std::vector<double> result(bytes.size() / 2);
  for (size_t i = 0; i < result.size(); ++i) {
    uint16_t bits;
    std::memcpy(&bits, bytes.data() + 2 * i, 2);
    result[i] = type == Type::BF16 ? bfloat16ToFloat(bits) : halfToFloat(bits);
  }
  return result;
}

ReferenceAttention referenceAttention(const AttentionShape &s, const std::vector<double> &qkv,
                                      const std::vector<double> &gradient, const std::vector<bool> &kept, ThreadPool &pool) {
  const int64_t t = s.tokens, d = s.size, group = s.heads / s.keyHeads, packed = s.packedWidth();
  ReferenceAttention r;
  r.result.resize(s.batch * t * s.width());
  r.lse.resize(s.batch * s.heads * t);
  r.packedGradient.resize(s.batch * t * packed);
  pool.parallelFor(s.batch * s.keyHeads, 1, [&](int64_t begin, int64_t end) { // a key head and the heads it serves
    std::vector<double> p(t), dp(t);
    for (int64_t unit = begin; unit < end; ++unit) {
      const int64_t b = unit / s.keyHeads, keyHead = unit % s.keyHeads;
      auto row = [&](int64_t token, int64_t head) { return (b * t + token) * packed + head * d; };
      for (int64_t head = keyHead * group; head < (keyHead + 1) * group; ++head)
        for (int64_t i = 0; i < t; ++i) {
          const int64_t length = s.lengths.empty() ? t : s.lengths[b], count = std::min(s.causal ? i + 1 : t, length);
          if (i >= length) {
            r.lse[(b * s.heads + head) * t + i] = NAN;
            continue;
          }
          const double *query = &qkv[row(i, head)], *dResult = &gradient[(b * t + i) * s.width() + head * d];
          double *result = &r.result[(b * t + i) * s.width() + head * d], *dQuery = &r.packedGradient[row(i, head)];
          double max = -INFINITY, sum = 0, delta = 0;
          for (int64_t j = 0; j < count; ++j) {
            const double *key = &qkv[row(j, s.heads + keyHead)];
            double score = 0;
            for (int64_t e = 0; e < d; ++e)
              score += query[e] * key[e];
            max = std::max(max, p[j] = score * s.scale());
          }
          for (int64_t j = 0; j < count; ++j)
            sum += p[j] = std::exp(p[j] - max);
          r.lse[(b * s.heads + head) * t + i] = max + std::log(sum);
          auto factor = [&](int64_t j) {
            return kept.empty() ? 1 : kept[((b * s.heads + head) * t + i) * t + j] ? 1 / (1 - s.dropout) : 0;
          };
          for (int64_t j = 0; j < count; ++j) {
            p[j] /= sum;
            const double *value = &qkv[row(j, s.heads + s.keyHeads + keyHead)];
            double *dValue = &r.packedGradient[row(j, s.heads + s.keyHeads + keyHead)];
            double weight = p[j] * factor(j);
            dp[j] = 0;
            for (int64_t e = 0; e < d; ++e) {
              result[e] += weight * value[e];
              dp[j] += dResult[e] * value[e];
              dValue[e] += weight * dResult[e];
            }
            dp[j] *= factor(j);
            delta += p[j] * dp[j];
          }
          for (int64_t j = 0; j < count; ++j) {
            const double *key = &qkv[row(j, s.heads + keyHead)];
            double *dKey = &r.packedGradient[row(j, s.heads + keyHead)], dScore = p[j] * (dp[j] - delta) * s.scale();
            for (int64_t e = 0; e < d; ++e) {
              dQuery[e] += dScore * key[e];
              dKey[e] += dScore * query[e];
            }
          }
        }
    }
  });
  return r;
}

double relativeError(const std::vector<double> &actual, const std::vector<double> &expected) {
  double difference = 0, total = 0;
  for (size_t i = 0; i < expected.size(); ++i) {
    if (std::isnan(expected[i]))
      continue;
    difference += (actual[i] - expected[i]) * (actual[i] - expected[i]);
    total += expected[i] * expected[i];
  }
  return std::sqrt(difference / total);
}

} // namespace tapeout::rt::test
