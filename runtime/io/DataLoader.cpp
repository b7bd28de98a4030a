#include "runtime/io/DataLoader.h"

#include "runtime/device/cpu/ThreadPool.h"
#include "runtime/io/Permutation.h"
#include "runtime/io/SampleSource.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <filesystem>
#include <mutex>
#include <thread>

namespace tapeout::rt {

/// Keeps every product of sizes below 2^63.
constexpr int64_t kMaxGlobalBatch = int64_t{1} << 40;

std::span<const uint8_t> Batch::find(std::string_view name) const {
  for (const Buffer &buffer : buffers_)
    if (buffer.name == name)
      return buffer.bytes;
  return {};
}

struct DataLoader::State {
  struct Slot {
    Batch batch;
    Status status;    ///< not ok: the loader stops here
    bool end = false; ///< after the last batch of an evaluation pass
  };

  DataSpec spec;
  InputRoles roles;
  std::unique_ptr<SampleSource> source;
  std::unique_ptr<ThreadPool> readers; ///< of a slow source
  std::array<Slot, kRingSize> ring;

  std::thread worker;
  mutable std::mutex mutex;
  std::condition_variable changed;
  // Under the mutex. The slots [consumed, produced) modulo kRingSize belong to the caller, the others to the worker.
  uint64_t produced = 0;
  uint64_t consumed = 0;
  bool stopping = false;

  // Of the calling thread.
  bool holding = false; ///< the caller has the batch in slot `consumed`
  LoaderPosition position;
  double waitSeconds = 0;

  ~State() { stop(); }

  void start(LoaderPosition from) {
    position = from;
    produced = consumed = 0;
    stopping = holding = false;
    worker = std::thread([this, from] { work(from); });
  }

  void stop() {
    {
      std::lock_guard lock(mutex);
      stopping = true;
    }
    changed.notify_all();
    if (worker.joinable())
      worker.join();
  }

  uint64_t globalBatch() const { return static_cast<uint64_t>(spec.batch) * static_cast<uint64_t>(spec.worldSize); }

  /// Samples that one epoch uses. Regression has no label to ignore, so its evaluation passes end with a whole batch.
  uint64_t usedSamples(uint64_t epoch) const {
    uint64_t samples = source->samplesInEpoch(epoch);
    return spec.task == DataTask::Regression && !spec.shuffle ? samples - samples % globalBatch() : samples;
  }

  /// Moves on by `count` samples, over the ends of epochs. Evaluation ends at the start of epoch 1.
  LoaderPosition advance(LoaderPosition from, uint64_t count) const {
    from.sample += count;
    for (uint64_t samples = usedSamples(from.epoch); from.sample >= samples; samples = usedSamples(from.epoch)) {
      from.sample -= samples;
      ++from.epoch;
      if (!spec.shuffle)
        return {1, 0};
    }
    return from;
  }

  void work(LoaderPosition next) {
    while (true) {
      Slot *slot;
      {
        std::unique_lock lock(mutex);
        changed.wait(lock, [&] { return stopping || produced - consumed < kRingSize; });
        if (stopping)
          return;
        slot = &ring[produced % kRingSize];
      }
      slot->end = !spec.shuffle && next.epoch > 0;
      slot->status = slot->end ? Status::ok() : fill(slot->batch, next);
      next = slot->batch.following_;
      bool last = slot->end || !slot->status.isOk();
      {
        std::lock_guard lock(mutex);
        ++produced;
      }
      changed.notify_all();
      if (last)
        return;
    }
  }

  /// Reads this rank's share of the global batch that starts at `start`.
  Status fill(Batch &batch, LoaderPosition start) const {
    batch.following_ = advance(start, globalBatch());
    LoaderPosition sample = advance(start, static_cast<uint64_t>(spec.rank * spec.batch));
    std::vector<LoaderPosition> samples;
    for (; static_cast<int64_t>(samples.size()) < spec.batch && (spec.shuffle || sample.epoch == 0); sample = advance(sample, 1))
      samples.push_back(sample);
    batch.sampleCount_ = static_cast<int64_t>(samples.size());
    for (int64_t i = batch.sampleCount_; i < spec.batch; ++i)
      fillUp(part(batch, roles.data, i), part(batch, roles.labels, i));
    if (!readers || samples.empty())
      return read(batch, samples, 0, batch.sampleCount_);

    std::vector<Status> statuses(samples.size()); // the first error is the same for any number of threads
    readers->parallelFor(batch.sampleCount_, 1, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i)
        statuses[i] = read(batch, samples, i, i + 1);
    });
    auto error = std::find_if(statuses.begin(), statuses.end(), [](const Status &status) { return !status.isOk(); });
    return error == statuses.end() ? Status::ok() : *error;
  }

  /// Reads the samples [begin, end) of a batch.
  Status read(Batch &batch, const std::vector<LoaderPosition> &samples, int64_t begin, int64_t end) const {
    for (int64_t i = begin; i < end; ++i) {
      auto [epoch, index] = samples[i];
      if (spec.shuffle)
        index = Permutation(source->samplesInEpoch(epoch), spec.seed, epoch)(index);
      TAPEOUT_RETURN_IF_ERROR(source->read(epoch, index, part(batch, roles.data, i), part(batch, roles.labels, i)));
    }
    return Status::ok();
  }

  std::span<uint8_t> part(Batch &batch, size_t input, int64_t sample) const {
    std::span<uint8_t> all = batch.buffers_[input].bytes;
    size_t size = all.size() / static_cast<size_t>(spec.batch);
    return all.subspan(static_cast<size_t>(sample) * size, size);
  }

  /// A sample without influence: zeros as data (a valid token and a valid image), every label to be ignored.
  void fillUp(std::span<uint8_t> data, std::span<uint8_t> labels) const {
    std::fill(data.begin(), data.end(), 0);
    auto narrow = static_cast<int32_t>(spec.ignoreIndex);
    bool wide = spec.inputs[roles.labels].type == ElementType::I64;
    const void *label = wide ? static_cast<const void *>(&spec.ignoreIndex) : &narrow;
    size_t size = wide ? sizeof(spec.ignoreIndex) : sizeof(narrow);
    for (size_t i = 0; i < labels.size(); i += size)
      std::memcpy(labels.data() + i, label, size);
  }
};

/// Finds out which input takes what and refuses sizes that cannot be meant.
static Result<InputRoles> checkSpec(const DataSpec &spec) {
  auto bad = [](std::string message) { return Status::error(ExitCode::BadConfig, std::move(message)); };
  if (spec.batch <= 0 || spec.worldSize <= 0 || spec.batch > kMaxGlobalBatch / spec.worldSize)
    return bad(fmt::format("a batch of {} samples on {} ranks is no size a loader can give; correct the batch size",
                           spec.batch, spec.worldSize));
  if (spec.rank < 0 || spec.rank >= spec.worldSize)
    return bad(fmt::format("rank {} is not one of {} ranks; correct RANK and WORLD_SIZE", spec.rank, spec.worldSize));
  if (spec.ignoreIndex != static_cast<int32_t>(spec.ignoreIndex))
    return bad(fmt::format("the ignore_index {} does not fit in 32 bits; compile the model with another one",
                           spec.ignoreIndex));
  if (spec.inputs.size() != 2)
    return bad(fmt::format("the data loader fills two inputs, data and labels, but the program has {}; compile a model "
                           "with two inputs",
                           spec.inputs.size()));
  for (const BatchInput &input : spec.inputs) {
    uint64_t unit = isValid(input.type) ? static_cast<uint64_t>(spec.batch) * elementSize(input.type) : 0;
    if (unit == 0 || input.bytes == 0 || input.bytes % unit != 0)
      return bad(
          fmt::format("the input '{}' has {} bytes, which is no whole number of elements for each of {} samples; "
                      "compile the model again",
                      input.name, input.bytes, spec.batch));
  }
  return spec.inputs[0].name == "labels" ? InputRoles{.data = 1, .labels = 0} : InputRoles{.data = 0, .labels = 1};
}

DataLoader::DataLoader(std::unique_ptr<State> state) : state_(std::move(state)) {}
DataLoader::~DataLoader() = default;

Result<std::unique_ptr<DataLoader>> DataLoader::create(const DataSpec &spec) {
  Result<InputRoles> roles = checkSpec(spec);
  if (!roles.isOk())
    return roles.status();
  std::error_code ignored;
  auto open = readsTokens(spec.task)                                  ? openTokenSource
              : std::filesystem::is_directory(spec.dataPath, ignored) ? openImageSource
                                                                      : openArraySource;
  Result<std::unique_ptr<SampleSource>> source = open(spec, *roles);
  if (!source.isOk())
    return source.status();

  auto state = std::make_unique<State>();
  state->spec = spec;
  state->roles = *roles;
  state->source = std::move(*source);
  if (state->source->isSlow())
    state->readers = std::make_unique<ThreadPool>(spec.readers > 0 ? spec.readers : usableProcessors());
  if (state->usedSamples(0) == 0)
    return Status::error(
        ExitCode::BadData,
        fmt::format("{}: its {} samples are fewer than one batch of {}, which evaluation of a regression "
                    "needs whole; give more data or compile with a smaller batch",
                    spec.dataPath, state->source->samplesInEpoch(0), state->globalBatch()));
  for (State::Slot &slot : state->ring)
    for (const BatchInput &input : spec.inputs)
      slot.batch.buffers_.push_back({input.name, std::vector<uint8_t>(input.bytes)});
  state->start({});
  return std::unique_ptr<DataLoader>(new DataLoader(std::move(state)));
}

Result<const Batch *> DataLoader::next() {
  State &state = *state_;
  std::unique_lock lock(state.mutex);
  if (state.holding) {
    ++state.consumed;
    state.holding = false;
    state.changed.notify_all();
  }
  if (state.produced == state.consumed) {
    auto start = std::chrono::steady_clock::now();
    state.changed.wait(lock, [&] { return state.produced != state.consumed; });
    state.waitSeconds += std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  }
  State::Slot &slot = state.ring[state.consumed % kRingSize];
  if (!slot.status.isOk())
    return slot.status;
  if (slot.end)
    return static_cast<const Batch *>(nullptr);
  state.holding = true;
  state.position = slot.batch.following_;
  return static_cast<const Batch *>(&slot.batch);
}

LoaderPosition DataLoader::position() const { return state_->position; }

Status DataLoader::seek(LoaderPosition position) {
  State &state = *state_;
  bool inPass = state.spec.shuffle || position.epoch == 0 || position == LoaderPosition{1, 0};
  if (!inPass || position.sample >= state.usedSamples(position.epoch))
    return Status::error(ExitCode::BadData,
                         fmt::format("{}: position (epoch {}, sample {}) is outside the data; resume with the data the "
                                     "checkpoint was made with",
                                     state.spec.dataPath, position.epoch, position.sample));
  state.stop();
  state.start(position);
  return Status::ok();
}

uint64_t DataLoader::samplesInEpoch(uint64_t epoch) const { return state_->usedSamples(epoch); }
double DataLoader::waitSeconds() const { return state_->waitSeconds; }
std::string DataLoader::description() const { return state_->source->description(); }
const std::vector<std::string> &DataLoader::classNames() const { return state_->source->classNames(); }

} // namespace tapeout::rt
