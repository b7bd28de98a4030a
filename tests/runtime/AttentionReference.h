// Attention in double, and plans of it, for the real and for the fake GPU.
#pragma once

#include "runtime/base/ElementType.h"
#include "runtime/device/cpu/ThreadPool.h"
#include "runtime/plan_generated.h"

#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

namespace tapeout::rt::test {

struct AttentionShape {
  tapeout::ElementType type;
  bool causal;
  int64_t batch, heads, keyHeads, tokens, size;
  double dropout = 0;
  std::vector<int32_t> lengths = {}; // of the sequences; none: no padding

  int64_t width() const { return heads * size; }
  int64_t packedWidth() const { return (heads + 2 * keyHeads) * size; }
  double scale() const { return 1 / std::sqrt(static_cast<double>(size)); }
  std::string text() const;
  /// What the backward needs for a slice of the batch, with some reserve.
  uint64_t scratchBytes(int64_t slices = 1) const;
  uint64_t nondeterministicScratchBytes() const;
};

/// Program `attention`, forward, then backward, on query, key and value packed as a model's product gives them: qkv [batch,
/// tokens, packedWidth], do (the gradient of the result), seed, offset and lengths -> o, lse, dqkv. Scratch memory is the whole arena.
plan::PlanT attentionPlan(const AttentionShape &shape, uint64_t scratchBytes);
plan::PlanT nondeterministicAttentionPlan(const AttentionShape &shape);

/// Numbers of 16-bit elements.
std::vector<double> toDouble(tapeout::ElementType type, const std::vector<uint8_t> &bytes);

/// The results of that program. `kept`, [batch, heads, tokens, tokens]: what dropout keeps; empty: all. NaN: any number.
struct ReferenceAttention {
  std::vector<double> result, lse, packedGradient;
};
ReferenceAttention referenceAttention(const AttentionShape &shape, const std::vector<double> &qkv,
                                      const std::vector<double> &gradient, const std::vector<bool> &kept, ThreadPool &pool);

/// Root mean square of the differences, relative to that of the expected numbers, where these are numbers.
double relativeError(const std::vector<double> &actual, const std::vector<double> &expected);

} // namespace tapeout::rt::test
