// Scaled dot-product attention by cuDNN: table Attention of runtime/plan.fbs, ready to be queued.
#pragma once

#include "runtime/base/ElementType.h"
#include "runtime/device/cuda/CudnnGraph.h"

#include <array>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace tapeout::rt {

/// Element [b, t, h, i] lies `b * batch + t * token + h * head + i` elements behind the address.
struct AttentionOperand {
  CuDevicePointer address;
  int64_t batch, token, head;
};

/// Probabilities are dropped at the rate by random bits that depend on both numbers, one i64 each on the device.
struct AttentionDropout {
  double rate = 0;
  CuDevicePointer seed = 0, offset = 0;
};

struct AttentionCall {
  bool backward, causal;
  bool nondeterministic = false; // the backward adds the query's gradient in any order
  ElementType type; // of the operands: f16 or bf16
  int64_t batch, heads, keyHeads, tokens, headSize;
  float scale;
  AttentionDropout dropout;
  CuDevicePointer lengths; // i32 [batch], from 1 to tokens: of each sequence, the rest is padding; 0: no padding
  CuDevicePointer lse; // f32 [batch, heads, tokens]: log-sum-exp of each row of scores
  /// Forward: query, key, value, result. Backward: query, key, value, output, its gradient, and the gradients of query, key
  /// and value.
  std::array<AttentionOperand, 8> operands;
};

/// Attention of a whole batch, or, without dropout, in slices of it where the workspace is too small.
class CudnnAttention {
public:
  /// Plans that calls of the same shape share: compiling one takes half a second.
  using PlanCache = std::map<std::string, std::shared_ptr<const CudnnPlan>>;

  /// `context` outlives the attention. Unavailable where cuDNN has no kernel for it within the workspace.
  static Result<CudnnAttention> create(const CudnnContext &context, const AttentionCall &call, CudnnWorkspace workspace,
                                       PlanCache &plans);

  /// Queues it on the handle's stream.
  Status run() const;

  /// What must be zero before it runs: where the query's gradient is added, if anywhere.
  const CudnnWorkspace &accumulator() const { return accumulator_; }
  int64_t slices() const { return static_cast<int64_t>(arguments_.size()); }

private:
  const CudnnContext *context_ = nullptr;
  std::shared_ptr<const CudnnPlan> plan_;
  CudnnWorkspace accumulator_;
  std::unique_ptr<const std::map<int64_t, float>> numbers_; // by id; read by the library at each run
  std::vector<Owned<CudnnDescriptor>> arguments_; // of each slice
};

} // namespace tapeout::rt
