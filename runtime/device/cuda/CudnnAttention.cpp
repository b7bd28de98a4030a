#include "runtime/device/cuda/CudnnAttention.h"

#include <fmt/format.h>

#include <limits>

namespace tapeout::rt {
namespace {

// Ids of the tensors in memory. Operands are numbered as in AttentionCall.
enum Id : int64_t { FirstOperand = 1, Lse = 20, GradientSums, Scale, Hidden, One };

using Tensor = CudnnGraph::Tensor;
using Sizes = CudnnGraph::Sizes;

uint64_t roundUp(uint64_t bytes) { return (bytes + 255) / 256 * 256; }

class AttentionGraph {
public:
  AttentionGraph(const CudnnContext &context, const AttentionCall &call)
      : call_(call), type_(call.type == ElementType::BF16 ? CudnnType::BF16 : CudnnType::F16),
        sizes_{call.batch, call.heads, call.tokens, call.headSize}, scores_{call.batch, call.heads, call.tokens, call.tokens},
        g_(context) {}

  Result<CudnnPlan> compile() {
    call_.backward ? backward() : forward();
    return g_.compile();
  }

private:
  Sizes stridesOf(int operand) const {
    const AttentionOperand &o = call_.operands[operand];
    return {o.batch, o.head, o.token, 1};
  }
  Tensor operand(int number) { return g_.tensor(FirstOperand + number, type_, sizes_, stridesOf(number)); }
  Tensor transposed(int number) {
    return g_.tensor(FirstOperand + number, type_, swapped(sizes_), swapped(stridesOf(number)));
  }
  static Sizes swapped(Sizes sizes) {
    std::swap(sizes[2], sizes[3]);
    return sizes;
  }
  Tensor perRow(int64_t id) {
    return g_.tensor(id, CudnnType::F32, {call_.batch, call_.heads, call_.tokens, 1},
                     {call_.heads * call_.tokens, call_.tokens, 1, 1});
  }

  Tensor scaledScores(const Tensor &query, const Tensor &keyTransposed) {
    return g_.pointwise(CudnnPointwise::Multiply, g_.multiply(query, keyTransposed), g_.scalar(Scale));
  }
  Tensor masked(const Tensor &scores) {
    if (!call_.causal)
      return scores;
    Tensor visible = g_.greaterOrEqual(g_.index(scores, 2), g_.index(scores, 3));
    return g_.pointwise(CudnnPointwise::Select, scores, g_.scalar(Hidden), visible);
  }

  // The library recognises exactly these graphs.
  void forward() {
    Tensor query = operand(0), key = transposed(1), value = operand(2), result = operand(3);
    Tensor scores = masked(scaledScores(query, key));
    Tensor max = g_.reduceLast(CudnnReduction::Max, scores);
    Tensor weights = g_.pointwise(CudnnPointwise::Exp, g_.pointwise(CudnnPointwise::Subtract, scores, max));
    Tensor sum = g_.reduceLast(CudnnReduction::Add, weights);
    g_.pointwiseInto(CudnnPointwise::Add, max, g_.pointwise(CudnnPointwise::Log, sum), perRow(Lse));
    g_.multiplyInto(g_.divideInto(type_, weights, sum), value, result);
  }

  /// Without an accumulator for the query's gradient, whose atomic additions would differ from run to run.
  void backward() {
    Tensor query = operand(0), key = transposed(1), value = transposed(2), output = operand(3), gradient = operand(4);
    Tensor queryGradient = operand(5), keyGradient = operand(6), valueGradient = operand(7);
    Tensor products = g_.value(CudnnType::F32, sizes_), sums = perRow(GradientSums);
    g_.pointwiseInto(CudnnPointwise::Multiply, gradient, output, products);
    g_.pointwiseInto(CudnnPointwise::Multiply, g_.reduceLast(CudnnReduction::Add, products), g_.scalar(One), sums);

    Tensor scores = g_.pointwise(CudnnPointwise::Subtract, scaledScores(query, key), perRow(Lse));
    Tensor probabilities = g_.pointwise(CudnnPointwise::Exp, masked(scores));
    g_.multiplyInto(turned(probabilities), gradient, valueGradient);

    Tensor difference = g_.pointwise(CudnnPointwise::Subtract, g_.multiply(gradient, value), sums);
    Tensor scoreGradient = g_.pointwise(CudnnPointwise::Multiply,
                                        g_.pointwise(CudnnPointwise::Multiply, difference, probabilities), g_.scalar(Scale));
    g_.multiplyInto(turned(scoreGradient), query, keyGradient);
    g_.multiplyInto(scoreGradient, g_.reshape(key, CudnnType::F32, sizes_, stridesOf(1)), queryGradient);
  }
  Tensor turned(const Tensor &scores) {
    return g_.reshape(scores, type_, scores_, swapped({scores_[1] * scores_[2] * scores_[3], scores_[2] * scores_[3], scores_[3], 1}));
  }

  const AttentionCall &call_;
  CudnnType type_;
  Sizes sizes_, scores_;
  CudnnGraph g_;
};

std::string keyOf(const AttentionCall &call, size_t workspaceBytes) {
  std::string key = fmt::format("{} {} {} {} {} {} {} {}", call.backward, call.causal, static_cast<int>(call.type), call.batch,
                                call.heads, call.tokens, call.headSize, workspaceBytes);
  for (const AttentionOperand &operand : call.operands)
    key += fmt::format(" {} {} {}", operand.batch, operand.token, operand.head);
  return key;
}

Result<std::shared_ptr<const CudnnPlan>> planOf(const CudnnContext &context, const AttentionCall &call,
                                                CudnnAttention::PlanCache &plans) {
  std::shared_ptr<const CudnnPlan> &plan = plans[keyOf(call, context.workspaceBytes)];
  if (!plan) {
    Result<CudnnPlan> compiled = AttentionGraph(context, call).compile();
    if (!compiled.isOk())
      return compiled.status();
    plan = std::make_shared<const CudnnPlan>(std::move(*compiled));
  }
  return plan;
}

} // namespace

Result<CudnnAttention> CudnnAttention::create(const CudnnContext &context, const AttentionCall &call, PlanCache &plans) {
  // The sums of the backward lie at the beginning of the workspace.
  const uint64_t sumBytes = call.backward ? roundUp(call.batch * call.heads * call.tokens * sizeof(float)) : 0;
  Result<std::shared_ptr<const CudnnPlan>> plan = Status::error(
      ExitCode::Unavailable, fmt::format("the plan's workspace of {} bytes is too small for attention", context.workspaceBytes));
  if (sumBytes > context.workspaceBytes)
    return plan.status();
  CudnnContext rest;
  rest.library = context.library;
  rest.handle = Owned(context.handle.get(), +[](CudnnHandle) { return 0; });
  rest.workspace = context.workspace + sumBytes;
  rest.workspaceBytes = context.workspaceBytes - sumBytes;

  AttentionCall slice = call;
  int64_t slices = 0;
  while (!plan.isOk() && slices < call.batch) {
    do
      ++slices;
    while (call.batch % slices != 0);
    slice.batch = call.batch / slices;
    uint64_t scoreBytes = slice.batch * call.heads * call.tokens * call.tokens * elementSize(call.type);
    if (!call.backward || scoreBytes <= rest.workspaceBytes) // kernels that repeat their bits hold the scores
      plan = planOf(rest, slice, plans);
  }
  if (!plan.isOk())
    return plan.status();

  CudnnAttention attention;
  attention.context_ = &context;
  attention.plan_ = *plan;
  attention.numbers_ = std::make_unique<std::array<float, 3>>(
      std::array<float, 3>{call.scale, -std::numeric_limits<float>::infinity(), 1});
  float *numbers = attention.numbers_->data();
  const int operands = call.backward ? 8 : 4;
  for (int64_t first = 0; first < call.batch; first += slice.batch) {
    std::vector<CudnnBinding> bindings;
    auto atDevice = [&](int64_t id, CuDevicePointer address) { bindings.push_back({id, reinterpret_cast<void *>(address)}); };
    for (int i = 0; i < operands; ++i)
      atDevice(FirstOperand + i, call.operands[i].address + first * call.operands[i].batch * elementSize(call.type));
    atDevice(Lse, call.lse + first * call.heads * call.tokens * sizeof(float));
    bindings.push_back({Scale, numbers});
    if (call.causal)
      bindings.push_back({Hidden, numbers + 1});
    if (call.backward) {
      bindings.push_back({One, numbers + 2});
      atDevice(GradientSums, context.workspace + first * call.heads * call.tokens * sizeof(float));
    }
    Result<Owned<CudnnDescriptor>> arguments = bind(rest, bindings);
    if (!arguments.isOk())
      return arguments.status();
    attention.arguments_.push_back(std::move(*arguments));
  }
  return attention;
}

Status CudnnAttention::run() const {
  const CudnnLibrary &library = context_->library;
  for (const Owned<CudnnDescriptor> &arguments : arguments_)
    TAPEOUT_RETURN_IF_ERROR(library.check(
        library.execute(context_->handle.get(), plan_->descriptor.get(), arguments.get()), "attention"));
  return Status::ok();
}

} // namespace tapeout::rt
