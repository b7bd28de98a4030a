#include "runtime/device/cuda/CudnnAttention.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

namespace tapeout::rt {
namespace {

// Ids of the tensors in memory. Operands are numbered as in AttentionCall.
enum Id : int64_t {
  FirstOperand = 1, Lse = 20, GradientSums, QueryGradient, Seed, Offset, Lengths, KeyLengths, Scale, Hidden, KeptScale, SumScale
};

using Tensor = CudnnGraph::Tensor;
using Sizes = CudnnGraph::Sizes;

constexpr uint64_t kAlignment = 256;
uint64_t roundUp(uint64_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

/// Whether an operand of the call has the heads of the keys.
bool isOfKeys(int operand) { return operand == 1 || operand == 2 || operand == 6 || operand == 7; }

class AttentionGraph {
public:
  AttentionGraph(const CudnnContext &context, const AttentionCall &call)
      : call_(call), type_(call.type == ElementType::BF16 ? CudnnType::BF16 : CudnnType::F16),
        sizes_{call.batch, call.heads, call.tokens, call.headSize}, scores_{call.batch, call.heads, call.tokens, call.tokens},
        g_(context) {
    if (call.lengths) {
      lengths_ = g_.tensor(Lengths, CudnnType::I32, {call.batch, 1, 1, 1}, {1, 1, 1, 1});
      keyLengths_ = g_.tensor(KeyLengths, CudnnType::I32, {call.batch, 1, 1, 1}, {1, 1, 1, 1});
    }
  }

  Result<CudnnPlan> compile(uint64_t workspaceBytes) {
    call_.backward ? backward() : forward();
    return g_.compile(workspaceBytes, !call_.nondeterministic);
  }

private:
  Sizes sizesOf(int operand) const {
    return {call_.batch, isOfKeys(operand) ? call_.keyHeads : call_.heads, call_.tokens, call_.headSize};
  }
  Sizes stridesOf(int operand) const {
    const AttentionOperand &o = call_.operands[operand];
    // A dimension of one element may come with any stride; the library takes 0 for a repeated one.
    auto nonzero = [](int64_t stride, int64_t otherwise) { return stride == 0 ? otherwise : stride; };
    const int64_t head = nonzero(o.head, call_.headSize), token = nonzero(o.token, sizesOf(operand)[1] * head);
    return {nonzero(o.batch, call_.tokens * token), head, token, 1};
  }
  Tensor operand(int number) { return g_.tensor(FirstOperand + number, type_, sizesOf(number), stridesOf(number)); }
  Tensor transposed(int number) {
    return g_.tensor(FirstOperand + number, type_, swapped(sizesOf(number)), swapped(stridesOf(number)));
  }
  static Sizes swapped(Sizes sizes) {
    std::swap(sizes[2], sizes[3]);
    return sizes;
  }
  Tensor perRow(int64_t id) {
    return g_.tensor(id, CudnnType::F32, {call_.batch, call_.heads, call_.tokens, 1},
                     {call_.heads * call_.tokens, call_.tokens, 1, 1});
  }
  Tensor times(const Tensor &x, const Tensor &y) { return g_.pointwise(CudnnPointwise::Multiply, x, y); }

  Tensor scaledScores(const Tensor &query, const Tensor &keyTransposed) {
    Tensor scores = times(g_.multiply(query, keyTransposed, {.m = lengths_, .n = keyLengths_, .k = {}}), g_.scalar(Scale));
    if (!call_.lengths)
      return scores;
    Tensor isQuery = g_.compare(CudnnPointwise::Less, g_.index(scores, 2), lengths_);
    Tensor isKey = g_.compare(CudnnPointwise::Less, g_.index(scores, 3), keyLengths_);
    return g_.pointwise(CudnnPointwise::Select, scores, g_.scalar(Hidden), g_.compare(CudnnPointwise::And, isQuery, isKey));
  }
  Tensor masked(const Tensor &scores) {
    if (!call_.causal)
      return scores;
    Tensor visible = g_.compare(CudnnPointwise::GreaterOrEqual, g_.index(scores, 2), g_.index(scores, 3));
    return g_.pointwise(CudnnPointwise::Select, scores, g_.scalar(Hidden), visible);
  }
  bool drops() const { return call_.dropout.rate > 0; }
  /// 1 where a probability is kept, else 0; the same in forward and backward.
  Tensor kept() {
    const Sizes one = {1, 1, 1, 1};
    return g_.bernoulli(1 - call_.dropout.rate, g_.tensor(Seed, CudnnType::I64, one, one),
                        g_.tensor(Offset, CudnnType::I64, one, one), scores_);
  }

  // The library recognises exactly these graphs.
  void forward() {
    Tensor query = operand(0), key = transposed(1), value = operand(2), result = operand(3);
    Tensor scores = masked(scaledScores(query, key));
    Tensor max = g_.reduceLast(CudnnReduction::Max, scores);
    Tensor weights = g_.pointwise(CudnnPointwise::Exp, g_.pointwise(CudnnPointwise::Subtract, scores, max));
    Tensor sum = g_.reduceLast(CudnnReduction::Add, weights);
    g_.pointwiseInto(CudnnPointwise::Add, max, g_.pointwise(CudnnPointwise::Log, sum), perRow(Lse));
    Tensor probabilities =
        drops() ? g_.pointwiseAs(type_, CudnnPointwise::Multiply,
                                 times(g_.pointwise(CudnnPointwise::Divide, weights, sum), kept()), g_.scalar(KeptScale))
                : g_.pointwiseAs(type_, CudnnPointwise::Divide, weights, sum);
    g_.multiplyInto(probabilities, value, result, {.m = lengths_, .n = {}, .k = keyLengths_});
  }

  /// An accumulator for the query's gradient makes the library's kernels add to it by atomic operations.
  void backward() {
    Tensor query = operand(0), key = transposed(1), value = transposed(2), output = operand(3), gradient = operand(4);
    Tensor products = g_.value(CudnnType::F32, sizes_), sums = perRow(GradientSums);
    g_.pointwiseInto(CudnnPointwise::Multiply, gradient, output, products);
    g_.pointwiseInto(CudnnPointwise::Multiply, g_.reduceLast(CudnnReduction::Add, products), g_.scalar(SumScale), sums);

    Tensor mask = drops() ? kept() : Tensor();
    Tensor scores = g_.pointwise(CudnnPointwise::Subtract, scaledScores(query, key), perRow(Lse));
    Tensor probabilities = g_.pointwise(CudnnPointwise::Exp, masked(scores));
    Tensor dropped = drops() ? times(times(probabilities, mask), g_.scalar(KeptScale)) : probabilities;
    multiplyForKeys(dropped, gradient, 7);

    Tensor ofProbabilities = g_.multiply(gradient, value, {.m = lengths_, .n = keyLengths_, .k = {}});
    Tensor difference = g_.pointwise(CudnnPointwise::Subtract, drops() ? times(ofProbabilities, mask) : ofProbabilities, sums);
    Tensor ofScores = times(difference, probabilities);
    if (drops())
      ofScores = times(ofScores, g_.scalar(KeptScale));
    ofScores = times(ofScores, g_.scalar(Scale));
    multiplyForKeys(ofScores, query, 6);
    Tensor keys = g_.reshape(key, CudnnType::F32, sizesOf(1), stridesOf(1));
    const CudnnGraph::Extents extents{.m = lengths_, .n = {}, .k = keyLengths_};
    if (!call_.nondeterministic)
      return g_.multiplyInto(ofScores, keys, operand(5), extents);
    const Sizes strides = {sizes_[1] * sizes_[2] * sizes_[3], sizes_[2] * sizes_[3], sizes_[3], 1};
    Tensor accumulator = g_.tensor(QueryGradient, CudnnType::F32, sizes_, strides);
    g_.multiplyInto(ofScores, keys, accumulator, extents);
    g_.pointwiseInto(CudnnPointwise::Identity, accumulator, {}, operand(5));
  }
  /// The gradient of keys or values: summed over the heads that they serve.
  void multiplyForKeys(const Tensor &scores, const Tensor &rows, int result) {
    Sizes strides = swapped({scores_[1] * scores_[2] * scores_[3], scores_[2] * scores_[3], scores_[3], 1});
    Tensor turned = g_.reshape(scores, type_, scores_, strides);
    const CudnnGraph::Extents extents{.m = keyLengths_, .n = {}, .k = lengths_};
    if (call_.keyHeads == call_.heads)
      return g_.multiplyInto(turned, rows, operand(result), extents);
    Tensor ofHeads = g_.value(type_, sizes_);
    g_.multiplyInto(turned, rows, ofHeads, extents);
    g_.reduceInto(CudnnReduction::Add, ofHeads, operand(result));
  }

  const AttentionCall &call_;
  CudnnType type_;
  Sizes sizes_, scores_;
  CudnnGraph g_;
  Tensor lengths_, keyLengths_; // the same numbers: the library wants two tensors
};

std::string keyOf(const AttentionCall &call, uint64_t workspaceBytes) {
  std::string key =
      fmt::format("{} {} {} {} {} {} {} {} {} {} {} {}", call.backward, call.nondeterministic, call.causal, static_cast<int>(call.type), call.batch,
                  call.heads, call.keyHeads, call.tokens, call.headSize, call.dropout.rate, call.lengths != 0, workspaceBytes);
  for (const AttentionOperand &operand : call.operands)
    key += fmt::format(" {} {} {}", operand.batch, operand.token, operand.head);
  return key;
}

Result<std::shared_ptr<const CudnnPlan>> planOf(const CudnnContext &context, const AttentionCall &call, uint64_t workspaceBytes,
                                                CudnnAttention::PlanCache &plans) {
  std::shared_ptr<const CudnnPlan> &plan = plans[keyOf(call, workspaceBytes)];
  if (!plan) {
    Result<CudnnPlan> compiled = AttentionGraph(context, call).compile(workspaceBytes);
    if (!compiled.isOk())
      return compiled.status();
    plan = std::make_shared<const CudnnPlan>(std::move(*compiled));
  }
  return plan;
}

/// The numbers that the graph reads from the host.
std::map<int64_t, float> numbersOf(const AttentionCall &call) {
  std::map<int64_t, float> numbers = {{Scale, call.scale}};
  const double kept = 1 - call.dropout.rate;
  if (call.lengths) // a finite number: rows of padding see nothing
    numbers[Hidden] = std::numeric_limits<float>::lowest();
  else if (call.causal)
    numbers[Hidden] = -std::numeric_limits<float>::infinity();
  if (call.dropout.rate > 0)
    numbers[KeptScale] = static_cast<float>(1 / kept);
  if (call.backward)
    numbers[SumScale] = static_cast<float>(kept); // what is subtracted of dropped gradients, which are scaled afterwards
  return numbers;
}

} // namespace

Result<CudnnAttention> CudnnAttention::create(const CudnnContext &context, const AttentionCall &call, CudnnWorkspace workspace,
                                              PlanCache &plans) {
  // What the backward sums lies at the beginning of the workspace.
  const uint64_t rowBytes = call.heads * call.tokens * sizeof(float);
  const uint64_t sumBytes = call.backward ? roundUp(call.batch * rowBytes) : 0;
  const CudnnWorkspace accumulator{workspace.address + sumBytes,
                                   call.nondeterministic ? roundUp(call.batch * rowBytes * call.headSize) : 0};
  const uint64_t taken = std::min(sumBytes + accumulator.bytes, workspace.bytes);
  const CudnnWorkspace rest{workspace.address + taken, workspace.bytes - taken};
  Result<std::shared_ptr<const CudnnPlan>> plan = Status::error(ExitCode::Unavailable, "");
  AttentionCall slice = call;
  // A slice would draw the random bits of the first one, or add where that has.
  const int64_t mostSlices = call.dropout.rate > 0 || call.nondeterministic ? 1 : call.batch;
  for (int64_t slices = 1; !plan.isOk() && slices <= mostSlices; ++slices) {
    if (call.batch % slices != 0)
      continue;
    slice.batch = call.batch / slices;
    uint64_t scoreBytes = slice.batch * call.heads * call.tokens * call.tokens * elementSize(call.type);
    bool holdsScores = call.backward && !call.nondeterministic; // kernels that repeat their bits do
    if (taken == sumBytes + accumulator.bytes && (!holdsScores || scoreBytes <= rest.bytes))
      plan = planOf(context, slice, rest.bytes, plans);
  }
  if (!plan.isOk() && plan.status().code() == ExitCode::Unavailable)
    return Status::error(ExitCode::Unavailable,
                         fmt::format("cuDNN {} has no kernel for this attention ({}{} of {} x {} heads of {} elements, "
                                     "{} tokens) within {} bytes of memory; compile with --skip-pass select-library-attention",
                                     context.library.getVersion(), call.backward ? "backward" : "forward",
                                     call.dropout.rate > 0 ? " with dropout" : "", call.batch, call.heads, call.headSize,
                                     call.tokens, workspace.bytes));
  if (!plan.isOk())
    return plan.status();

  CudnnAttention attention;
  attention.context_ = &context;
  attention.plan_ = *plan;
  attention.accumulator_ = accumulator;
  attention.numbers_ = std::make_unique<const std::map<int64_t, float>>(numbersOf(call));
  const int operands = call.backward ? 8 : 4;
  for (int64_t first = 0; first < call.batch; first += slice.batch) {
    std::vector<CudnnBinding> bindings;
    auto atDevice = [&](int64_t id, CuDevicePointer address) { bindings.push_back({id, reinterpret_cast<void *>(address)}); };
    for (int i = 0; i < operands; ++i)
      atDevice(FirstOperand + i, call.operands[i].address + first * call.operands[i].batch * elementSize(call.type));
    atDevice(Lse, call.lse + first * rowBytes);
    if (call.backward)
      atDevice(GradientSums, workspace.address + first * rowBytes);
    if (call.nondeterministic)
      atDevice(QueryGradient, accumulator.address);
    if (call.dropout.rate > 0) {
      atDevice(Seed, call.dropout.seed);
      atDevice(Offset, call.dropout.offset);
    }
    if (call.lengths)
      for (int64_t id : {Lengths, KeyLengths})
        atDevice(id, call.lengths + first * sizeof(int32_t));
    for (auto &[id, number] : *attention.numbers_)
      bindings.push_back({id, const_cast<float *>(&number)});
    Result<Owned<CudnnDescriptor>> arguments = bind(context, bindings, rest.address);
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
