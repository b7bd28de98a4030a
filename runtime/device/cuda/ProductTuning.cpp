#include "runtime/device/cuda/ProductTuning.h"

#include "runtime/base/AtomicFile.h"
#include "runtime/base/Philox.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>

namespace tapeout::rt {
namespace {

constexpr int kCandidates = 24;
constexpr double kBudgetSeconds = 10;
constexpr int kMeasurements = 3;
constexpr float kMeasuredMilliseconds = 2; // of one measurement
constexpr int kMaxRepeats = 20;
constexpr float kHopeless = 1.5f;               // times the best: not measured again
constexpr uint64_t kPatternBytes = uint64_t(4) << 20;

class Stopwatch {
public:
  static Result<Stopwatch> create(const CudaDriver &driver, CuStream stream) {
    CuEvent begin, end;
    TAPEOUT_RETURN_IF_ERROR(driver.check(driver.eventCreate(&begin, 0), "tuning"));
    Owned<CuEvent> ownedBegin(begin, driver.eventDestroy);
    TAPEOUT_RETURN_IF_ERROR(driver.check(driver.eventCreate(&end, 0), "tuning"));
    return Stopwatch(driver, stream, std::move(ownedBegin), Owned<CuEvent>(end, driver.eventDestroy));
  }

  /// Milliseconds of one run of the product, on average.
  Result<float> measure(const TunedProduct &product, const TuningChoice &choice, int repeats) const {
    float milliseconds = 0;
    TAPEOUT_RETURN_IF_ERROR(driver_->check(driver_->eventRecord(begin_.get(), stream_), "tuning"));
    for (int i = 0; i < repeats; ++i)
      TAPEOUT_RETURN_IF_ERROR(product.run(choice));
    TAPEOUT_RETURN_IF_ERROR(driver_->check(driver_->eventRecord(end_.get(), stream_), "tuning"));
    TAPEOUT_RETURN_IF_ERROR(driver_->check(driver_->eventSynchronize(end_.get()), "tuning"));
    TAPEOUT_RETURN_IF_ERROR(driver_->check(driver_->eventElapsedTime(&milliseconds, begin_.get(), end_.get()), "tuning"));
    return milliseconds / static_cast<float>(repeats);
  }

private:
  Stopwatch(const CudaDriver &driver, CuStream stream, Owned<CuEvent> begin, Owned<CuEvent> end)
      : driver_(&driver), stream_(stream), begin_(std::move(begin)), end_(std::move(end)) {}

  const CudaDriver *driver_;
  CuStream stream_;
  Owned<CuEvent> begin_, end_;
};

/// What can run the product, at most kCandidates in each way.
Result<std::vector<TuningChoice>> candidatesFor(const TunedProduct &product) {
  Result<std::vector<CublasAlgorithm>> plain = product.plain.candidates(kCandidates);
  if (!plain.isOk())
    return plain.status();
  std::vector<TuningChoice> choices;
  for (const CublasAlgorithm &algorithm : *plain)
    choices.push_back({algorithm, product.withBias.has_value()});
  if (product.withBias) // where the library has no kernel for it, ours adds it
    if (Result<std::vector<CublasAlgorithm>> fused = product.withBias->candidates(kCandidates); fused.isOk())
      for (const CublasAlgorithm &algorithm : *fused)
        choices.push_back({algorithm, false});
  return choices;
}

bool accepts(const TunedProduct &product, const TuningChoice &choice) {
  bool fused = product.withBias && !choice.separate;
  return (product.withBias || !choice.separate) && (fused ? *product.withBias : product.plain).accepts(choice.algorithm);
}

Result<TuningChoice> fastest(const Stopwatch &watch, const TunedProduct &product, const std::vector<TuningChoice> &candidates) {
  TuningChoice best = candidates.front();
  float bestTime = 0;
  for (const TuningChoice &candidate : candidates) {
    Result<float> time = watch.measure(product, candidate, 1); // loads the kernel
    if (time.isOk())
      time = watch.measure(product, candidate, 1);
    if (!time.isOk())
      return time.status();
    if (bestTime != 0 && *time > kHopeless * bestTime)
      continue;
    int repeats = std::clamp(static_cast<int>(kMeasuredMilliseconds / std::max(*time, 1e-3f)), 1, kMaxRepeats);
    for (int i = 0; i < kMeasurements; ++i) {
      Result<float> again = watch.measure(product, candidate, repeats);
      if (!again.isOk())
        return again.status();
      *time = i == 0 ? *again : std::min(*time, *again);
    }
    if (bestTime == 0 || *time < bestTime) {
      best = candidate;
      bestTime = *time;
    }
  }
  return best;
}

} // namespace

Status TunedProduct::run(const TuningChoice &how) const {
  if (withBias && !how.separate)
    return withBias->run(how.algorithm);
  TAPEOUT_RETURN_IF_ERROR(plain.run(how.algorithm));
  return withBias ? addBias() : Status::ok();
}

Status fillWithRandomNumbers(const CudaDriver &driver, CuDevicePointer begin, uint64_t bytes, CuStream stream) {
  // Pairs of bf16 in [-1, 1): as f32 the second one rules, as f16 the exponent is below the largest.
  std::vector<uint16_t> pattern(std::min(bytes, kPatternBytes) / sizeof(uint16_t));
  (void)RandomStream{.seed = 1, .stream = 0}.fillUniform(ElementType::BF16, pattern.data(), 0, pattern.size(), -1, 1);
  uint64_t filled = pattern.size() * sizeof(uint16_t);
  CuResult result = filled > 0 ? driver.memcpyHtoDAsync(begin, pattern.data(), filled, stream) : kCuSuccess;
  while (result == kCuSuccess && filled > 0 && filled < bytes) {
    uint64_t piece = std::min(filled, bytes - filled);
    result = driver.memcpyDtoDAsync(begin + filled, begin, piece, stream);
    filled += piece;
  }
  if (result == kCuSuccess)
    result = driver.streamSynchronize(stream); // the pattern goes
  return driver.check(result, "filling memory with random numbers");
}

Result<std::string> chooseAlgorithms(const CudaDriver &driver, std::span<TunedProduct> products, CuStream stream,
                                     const std::string &path, const TuningIdentity &identity) {
  TuningChoices known = path.empty() ? TuningChoices() : readTuningFile(path, identity), chosen;
  Result<Stopwatch> watch = Stopwatch::create(driver, stream);
  if (!watch.isOk())
    return watch.status();
  auto start = std::chrono::steady_clock::now();
  auto seconds = [&] { return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count(); };
  const bool canKeep = !path.empty() && AtomicFile::create(path).isOk();
  bool measured = false;
  for (TunedProduct &product : products) {
    auto found = chosen.find(product.key());
    if (found == chosen.end()) {
      Result<std::vector<TuningChoice>> candidates = candidatesFor(product);
      if (!candidates.isOk())
        return candidates.status();
      auto stored = known.find(product.key());
      bool valid = stored != known.end() && accepts(product, stored->second);
      TuningChoice choice = valid ? stored->second : candidates->front();
      if (!valid && canKeep) {
        measured = true;
        if (candidates->size() > 1 && seconds() < kBudgetSeconds) {
          Result<TuningChoice> best = fastest(*watch, product, *candidates);
          if (!best.isOk())
            return best.status();
          choice = *best;
        }
      }
      found = chosen.emplace(product.key(), choice).first;
    }
    product.choice = found->second;
  }
  if (measured)
    TAPEOUT_RETURN_IF_ERROR(writeTuningFile(path, identity, chosen));
  return fmt::format("{} products, {}", products.size(),
                     measured ? fmt::format("tuned in {:.1f} s", seconds()) : canKeep ? "as tuned before" : "not tuned");
}

} // namespace tapeout::rt
