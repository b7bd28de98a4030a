#include "runtime/base/Philox.h"
#include "tests/gpu/GpuTest.h"
#include "tests/runtime/AttentionCases.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstring>

namespace tapeout::rt::test {
namespace {

using Type = tapeout::ElementType;
using Shape = AttentionShape;

/// One case on the device, with its inputs in double.
class Attention {
public:
  Attention(Report &report, const Shape &shape, int64_t slices = 1)
      : Attention(report, shape, attentionPlan(shape, shape.scratchBytes(slices))) {}
  Attention(Report &report, const Shape &shape, const plan::PlanT &plan) : shape_(shape), machine_(report, plan) {}

  explicit operator bool() const { return machine_.executor != nullptr; }
  GpuMachine &machine() { return machine_; }

  Status fill() {
    TAPEOUT_RETURN_IF_ERROR(fillRandom("qkv", shape_.batch * shape_.tokens * shape_.packedWidth(), 1.5));
    for (const char *result : {"o", "dqkv"}) // not a number where nothing is written
      TAPEOUT_RETURN_IF_ERROR(machine_.executor->write(
          machine_.slot(result), [&](std::span<uint8_t> bytes) { std::fill(bytes.begin(), bytes.end(), 0xFF); }));
    return fillRandom("do", shape_.batch * shape_.tokens * shape_.width(), 1);
  }
  Status setLengths() {
    if (shape_.lengths.empty())
      return Status::ok();
    return machine_.executor->write(machine_.slot("lengths"), [&](std::span<uint8_t> bytes) {
      std::memcpy(bytes.data(), shape_.lengths.data(), bytes.size());
    });
  }
  Status fillRandom(const char *name, int64_t count, double largest) {
    return machine_.executor->write(machine_.slot(name), [&](std::span<uint8_t> bytes) {
      machine_.executor->pool().parallelFor(count, 1 << 14, [&](int64_t begin, int64_t end) {
        (void)RandomStream{.seed = 7, .stream = uint64_t(name[0])}.fillUniform(
            shape_.type, bytes.data() + begin * 2, begin, end - begin, -largest, largest);
      });
    });
  }
  Status setDropout(int64_t seed, int64_t offset) {
    for (auto [name, value] : {std::pair("seed", seed), std::pair("offset", offset)})
      TAPEOUT_RETURN_IF_ERROR(machine_.executor->write(machine_.slot(name), [&, value = value](std::span<uint8_t> bytes) {
        std::memcpy(bytes.data(), &value, sizeof value);
      }));
    return Status::ok();
  }
  Status run() {
    TAPEOUT_RETURN_IF_ERROR(machine_.executor->run(program()));
    return machine_.executor->wait();
  }
  /// The least milliseconds of the forward and of the backward call in some runs.
  Result<std::array<double, 2>> time(int runs) {
    TAPEOUT_RETURN_IF_ERROR(run()); // loads kernels
    TAPEOUT_RETURN_IF_ERROR(machine_.executor->startRecording());
    for (int i = 0; i < runs; ++i)
      TAPEOUT_RETURN_IF_ERROR(run());
    Result<Recording> recording = machine_.executor->finishRecording();
    if (!recording.isOk())
      return recording.status();
    std::array<double, 2> least = {INFINITY, INFINITY};
    for (const RecordedRun &recorded : recording->runs)
      for (uint32_t call : {0, 1}) {
        std::chrono::steady_clock::duration work{};
        for (const Activity &activity : recorded.activities)
          if (activity.instruction == program().instructions()->Get(call))
            work += activity.end - activity.begin;
        least[call] = std::min(least[call], std::chrono::duration<double, std::milli>(work).count());
      }
    return least;
  }
  std::vector<double> numbers(const char *name) { return toDouble(shape_.type, machine_.bytes(name)); }
  std::vector<std::vector<uint8_t>> results() {
    return {machine_.bytes("o"), machine_.bytes("lse"), machine_.bytes("dqkv")};
  }

private:
  const plan::Program &program() { return *machine_.plan.program("attention"); }

  Shape shape_;
  GpuMachine machine_;
};

/// How an attention is checked.
struct Checks {
  bool repeats = true; ///< whether it must give the same bits again
  bool sums = false;   ///< whether there are sums of the columns of dqkv
  std::string note = {};
};

/// The error of `sums`, relative to the expected sums.
double errorOfSums(Attention &attention, const std::vector<double> &packedGradient) {
  std::vector<float> actual = attention.machine().floats("sums");
  std::vector<double> expected(actual.size());
  for (size_t i = 0; i < packedGradient.size(); ++i)
    expected[i % expected.size()] += packedGradient[i];
  return relativeError({actual.begin(), actual.end()}, expected);
}

void checkAgainstDouble(Report &report, Attention &attention, const Shape &shape, const std::vector<bool> &kept,
                        const Checks &checks = {}) {
  const std::string title = shape.text() + checks.note;
  Status status = attention.setLengths();
  if (status.isOk())
    status = attention.fill();
  if (status.isOk())
    status = attention.run();
  if (!status.isOk())
    return report.check(status, title);
  ReferenceAttention expected =
      referenceAttention(shape, attention.numbers("qkv"), attention.numbers("do"), kept, attention.machine().executor->pool());
  std::vector<float> lse = attention.machine().floats("lse");
  double result = relativeError(attention.numbers("o"), expected.result);
  double gradient = relativeError(attention.numbers("dqkv"), expected.packedGradient);
  double logSum = relativeError({lse.begin(), lse.end()}, expected.lse);
  double sums = checks.sums ? errorOfSums(attention, expected.packedGradient) : 0;
  const double bound = shape.type == Type::BF16 ? 6e-3 : 8e-4;
  bool same = true;
  const auto first = attention.results();
  for (int again = 0; again < 5 && status.isOk(); ++again) { // the first is captured, the others are replayed
    status = attention.run();
    same &= attention.results() == first;
  }
  bool good = result < bound && gradient < bound && logSum < 1e-5 && sums < bound;
  report.check(status.isOk() && good && (same || !checks.repeats), title,
               "errors: result {:.1e}, lse {:.1e}, gradients {:.1e}{}; {}{}", result, logSum, gradient,
               checks.sums ? fmt::format(", sums {:.1e}", sums) : "", same ? "same bits" : "OTHER BITS", status.message());
}

/// What dropout keeps, read off attention to the rows of the unit matrix.
std::vector<bool> keptProbabilities(Attention &attention, const Shape &s, int64_t seed, int64_t offset, Status &status) {
  status = attention.setDropout(seed, offset);
  if (status.isOk())
    status = attention.setLengths();
  if (status.isOk())
    status = attention.machine().executor->write(attention.machine().slot("qkv"), [&](std::span<uint8_t> bytes) {
      std::fill(bytes.begin(), bytes.end(), 0);
      const uint16_t one = s.type == Type::BF16 ? 0x3F80 : 0x3C00;
      for (int64_t row = 0; row < s.batch * s.tokens; ++row)
        for (int64_t head = 0; head < s.keyHeads; ++head)
          std::memcpy(&bytes[2 * (row * s.packedWidth() + (s.heads + s.keyHeads + head) * s.size + row % s.tokens)], &one, 2);
    });
  if (status.isOk())
    status = attention.run();
  if (!status.isOk())
    return {};
  std::vector<double> result = attention.numbers("o");
  std::vector<bool> kept(s.batch * s.heads * s.tokens * s.tokens);
  for (int64_t b = 0; b < s.batch; ++b)
    for (int64_t head = 0; head < s.heads; ++head)
      for (int64_t i = 0; i < s.tokens; ++i)
        for (int64_t j = 0; j < s.tokens; ++j)
          kept[((b * s.heads + head) * s.tokens + i) * s.tokens + j] = result[((b * s.tokens + i) * s.heads + head) * s.size + j] != 0;
  return kept;
}

void testDropout(Report &report, const Shape &shape) {
  Attention attention(report, shape);
  if (!attention)
    return;
  Status status;
  auto kept = [&](int64_t seed, int64_t offset) { return keptProbabilities(attention, shape, seed, offset, status); };
  const std::vector<bool> first = kept(1, 0);
  if (!status.isOk())
    return report.check(status, shape.text());
  report.check(first == kept(1, 0), shape.text(), "the same numbers keep the same");
  if (!shape.causal && shape.lengths.empty()) {
    double share = static_cast<double>(std::count(first.begin(), first.end(), true)) / static_cast<double>(first.size());
    double deviation = std::sqrt(shape.dropout * (1 - shape.dropout) / static_cast<double>(first.size()));
    report.check(std::abs(share - (1 - shape.dropout)) < 5 * deviation, "  share that is kept", "{:.4f}", share);
  }
  status = attention.setDropout(1, 0);
  checkAgainstDouble(report, attention, shape, first);
}

void testSpeed(Report &report) {
  const Shape shape{Type::BF16, true, 64, 12, 12, 1024, 64};
  std::vector<std::vector<uint8_t>> first;
  for (int64_t slices : {1, 2, 4}) {
    Attention attention(report, shape, slices);
    if (!attention)
      return;
    Status status = attention.fill();
    Result<std::array<double, 2>> times = status.isOk() ? attention.time(6) : status;
    if (first.empty())
      first = attention.results();
    const std::string what = fmt::format("{} in {} slices", shape.text(), slices);
    if (!times.isOk())
      return report.check(times.status(), what);
    report.check(attention.results() == first, what, "forward {:.3f} ms, backward {:.3f} ms, bits as in one slice", (*times)[0], (*times)[1]);
  }
}

} // namespace

void testAttention(Report &report) {
  const Shape shapes[] = {{Type::BF16, true, 2, 4, 4, 1024, 64},  {Type::F16, true, 2, 4, 4, 1024, 64},
                          {Type::BF16, false, 2, 4, 4, 512, 64},  {Type::BF16, true, 2, 4, 4, 77, 64},
                          {Type::BF16, false, 2, 4, 4, 77, 64},   {Type::BF16, true, 2, 4, 4, 1000, 64},
                          {Type::F16, false, 2, 4, 4, 1000, 64},  {Type::BF16, true, 2, 8, 2, 512, 64},
                          {Type::F16, false, 2, 8, 1, 512, 64},   {Type::BF16, true, 2, 8, 2, 1000, 128},
                          {Type::BF16, true, 1, 4, 4, 512, 80},   {Type::BF16, true, 1, 4, 4, 512, 128},
                          {Type::BF16, false, 1, 4, 1, 77, 128},  {Type::BF16, true, 1, 4, 4, 512, 8},
                          {Type::BF16, true, 1, 4, 4, 512, 104},  {Type::BF16, true, 1, 4, 4, 512, 192},
                          {Type::BF16, true, 1, 4, 4, 512, 256},  {Type::F16, false, 1, 4, 2, 77, 256},
                          {Type::BF16, true, 2, 4, 4, 8, 64},     {Type::BF16, false, 2, 4, 2, 17, 64},
                          {Type::BF16, true, 3, 4, 4, 2, 64},     {Type::BF16, true, 2, 4, 4, 1, 64},
                          {Type::BF16, true, 2, 1, 1, 100, 64}};
  const Shape padded[] = {{Type::BF16, false, 4, 4, 4, 256, 64, 0, {256, 100, 1, 255}},
                          {Type::F16, true, 3, 4, 2, 200, 128, 0, {77, 200, 130}},
                          {Type::BF16, false, 2, 4, 1, 77, 64, 0, {5, 70}},
                          {Type::BF16, true, 6, 4, 4, 128, 64, 0, {128, 1, 64, 2, 127, 65}}};
  for (const Shape &shape : padded)
    if (Attention attention(report, shape); attention)
      checkAgainstDouble(report, attention, shape, {});
  for (const Shape &shape : shapes)
    if (Attention attention(report, shape); attention)
      checkAgainstDouble(report, attention, shape, {});
  for (const Shape &shape : {Shape{Type::BF16, false, 2, 4, 4, 128, 128, 0.1}, Shape{Type::F16, true, 2, 4, 2, 128, 128, 0.5},
                             Shape{Type::BF16, true, 2, 4, 4, 64, 64, 0.25},
                             Shape{Type::BF16, false, 3, 4, 2, 128, 128, 0.2, {128, 50, 77}}})
    testDropout(report, shape);
  for (const Shape &shape : {Shape{Type::BF16, true, 2, 4, 4, 1000, 64}, Shape{Type::F16, false, 2, 8, 2, 512, 128}})
    if (Attention attention(report, shape, nondeterministicAttentionPlan(shape)); attention)
      checkAgainstDouble(report, attention, shape, {}, {.repeats = false, .note = ", in any order"});
  testSpeed(report);
}

void testAttentionKernels(Report &report, const std::string &folder) {
  for (const KernelAttentionCase &attentionCase : kernelAttentionCases()) {
    const Checks checks{.sums = attentionCase.sums, .note = attentionCase.sums ? ", own kernels, sums" : ", own kernels"};
    std::optional<plan::PlanT> plan =
        compiledPlan(report, folder + "/" + attentionCase.fileName(), "attention_key_gradients");
    if (!plan)
      return;
    if (Attention attention(report, attentionCase.shape, *plan); attention)
      checkAgainstDouble(report, attention, attentionCase.shape, {}, checks);
  }
}

} // namespace tapeout::rt::test
