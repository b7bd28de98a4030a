// Turns a dataset on disk into batches, ahead of time, in an order that is part of the training state.
//
// Order. The samples of epoch e are permuted by a function of (seed, e) alone (Permutation.h). Training reads the
// epochs one after the other as one endless sequence; global batch g is its entries [g*B*W, (g+1)*B*W) for batch size B
// and world size W, and rank r takes the r-th run of B of them. So the ranks are disjoint, together read everything,
// and one sequence is seen by every (B, W, thread count). Evaluation (shuffle = false) is one pass in file order; its
// last batch is filled up with samples whose labels are all `ignoreIndex`, so every sample counts once.
// (Regression has no label to ignore: its evaluation leaves out the samples behind the last whole batch.)
//
// Worker thread: fills a ring of kRingSize batches, one of which the caller holds. Images are decoded by more threads.
#pragma once

#include "runtime/base/ElementType.h"
#include "runtime/base/Status.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tapeout::rt {

/// The same numbers as plan::Task.
enum class DataTask : uint8_t { LanguageModel = 0, Classification = 1, Regression = 2, MaskedLanguageModel = 3 };
/// Whether samples are windows of a token stream.
constexpr bool readsTokens(DataTask task) {
  return task == DataTask::LanguageModel || task == DataTask::MaskedLanguageModel;
}

/// One input slot of the program that the loader fills.
struct BatchInput {
  std::string name;
  ElementType type = ElementType::F32;
  uint64_t bytes = 0; ///< of the whole batch of one rank
  std::vector<int64_t> shape = {}; ///< of the whole batch; asked for by images only
};

/// value = (pixel / 255 - mean) / deviation, for each channel; empty: the defaults of openImageSource.
struct ImageNormalisation {
  std::vector<double> mean, deviation;
};

struct DataSpec {
  /// Language models: a file or a comma-separated list of files. Else one .npy file, or a folder of images.
  std::string dataPath;
  std::string labelsPath; ///< one .npy file; unused by language models and images
  DataTask task = DataTask::LanguageModel;
  int64_t batch = 1;          ///< samples per batch and rank
  int64_t context = 0;        ///< language models: tokens per sample
  int64_t maskToken = -1;     ///< masked language models: the token that hides others; below the vocabulary
  int64_t vocabulary = 0;     ///< token ids, or class labels, are below it; unused by regression
  int64_t ignoreIndex = -100; ///< the label that the loss skips
  /// Two inputs: "labels" (or, without one of this name, the last) takes the labels, the other one the data.
  std::vector<BatchInput> inputs;
  uint64_t seed = 0;
  bool shuffle = true; ///< true: training, endless. false: evaluation, one pass in file order
  int64_t rank = 0;
  int64_t worldSize = 1;
  ImageNormalisation images;
  int readers = 0; ///< threads that decode images; 0: one per processor
};

/// Where a global batch starts; the same on every rank. Part of a checkpoint.
struct LoaderPosition {
  uint64_t epoch = 0;
  uint64_t sample = 0; ///< index into the epoch's order
  bool operator==(const LoaderPosition &) const = default;
};

/// One rank's share of a global batch. Samples lie one after the other in each input.
class Batch {
public:
  /// The bytes of the input called `name`; empty when there is none.
  std::span<const uint8_t> find(std::string_view name) const;
  /// Samples that are no filling; less than DataSpec::batch only at the end of an evaluation pass, possibly 0.
  int64_t sampleCount() const { return sampleCount_; }

private:
  friend class DataLoader;
  struct Buffer {
    std::string name;
    std::vector<uint8_t> bytes;
  };
  std::vector<Buffer> buffers_; ///< in the order of DataSpec::inputs
  int64_t sampleCount_ = 0;
  LoaderPosition following_; ///< of the batch after this one
};

class DataLoader {
public:
  static constexpr size_t kRingSize = 3;

  /// Opens and checks the files and starts the worker thread. Errors: MissingInput (66) for files that cannot be
  /// opened, BadData (65) for their contents, BadConfig (78) for a spec that does not fit the task.
  static Result<std::unique_ptr<DataLoader>> create(const DataSpec &spec);
  ~DataLoader();
  DataLoader(const DataLoader &) = delete;
  DataLoader &operator=(const DataLoader &) = delete;

  /// The next batch, valid until the next call of a member that is not const. nullptr after the last batch of an
  /// evaluation pass (seek({}) starts another one). An error stays until seek().
  Result<const Batch *> next();

  /// The position of the batch that next() will give.
  LoaderPosition position() const;
  /// Goes on from `position`, which may come from a checkpoint: refused with BadData when it is outside its epoch.
  Status seek(LoaderPosition position);

  /// Samples of one epoch; language models with shuffle may have one fewer in some epochs (their windows shift).
  uint64_t samplesInEpoch(uint64_t epoch) const;
  /// Total time that next() had to wait for the worker thread.
  double waitSeconds() const;
  /// "text.txt: 39,900,000 tokens", for the start line.
  std::string description() const;
  /// The classes that the labels stand for, in their order; empty where the data has no names for them.
  const std::vector<std::string> &classNames() const;

private:
  struct State;
  explicit DataLoader(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

} // namespace tapeout::rt
