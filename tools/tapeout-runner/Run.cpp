#include "tools/tapeout-runner/Run.h"

#include "runtime/Bench.h"
#include "runtime/Describe.h"
#include "runtime/Executor.h"
#include "runtime/Generate.h"
#include "runtime/State.h"
#include "runtime/StopSignal.h"
#include "runtime/Trainer.h"
#include "runtime/base/AtomicFile.h"
#include "runtime/base/Package.h"
#include "tools/tapeout-runner/Options.h"

#include <fmt/format.h>

#include <unistd.h>

#include <cstdio>
#include <filesystem>

using namespace tapeout;
using namespace tapeout::rt;

namespace tapeout::runner {
namespace {

const Section *firstOf(const Package &package, SectionKind kind) {
  for (const Section &section : package.sections())
    if (section.kind == kind)
      return &section;
  return nullptr;
}

std::span<const uint8_t> bytesOf(const Section *section) {
  return section ? section->bytes : std::span<const uint8_t>();
}

/// One run of the executable. Members are in the order in which they come to life.
class Run {
public:
  Run(const Package &package, const Plan &plan, std::string path, Options options)
      : package_(package), plan_(plan), path_(std::move(path)), options_(std::move(options)) {}
  Status operator()();

private:
  Status checkOutputs();
  Status claimCheckpointDirectory();
  Status initialize();
  Status start();
  Status resume();
  Status takeSteps();
  Status train();
  Status bench(const Result<MissCounter> &counter);
  Status evaluateOnly();
  Status generateText();
  Result<std::unique_ptr<DataLoader>> openData(bool evaluation);

  const Package &package_;
  const Plan &plan_;
  const std::string path_; // of the package
  const Options options_;
  StopSignal stop_; // before the first thread
  std::optional<FolderLock> checkpointLock_;
  std::unique_ptr<Executor> executor_;
  HyperparameterValues config_;
  uint64_t seed_ = 0;
  uint64_t stepsDone_ = 0;
  LoaderPosition position_;
};

Status Run::operator()() {
  TAPEOUT_RETURN_IF_ERROR(checkOutputs());
  std::optional<Result<MissCounter>> counter; // before the threads that it is to count
  if (options_.bench)
    counter.emplace(MissCounter::open());
  Result<std::unique_ptr<Executor>> executor =
      createExecutor(plan_, bytesOf(firstOf(package_, SectionKind::CpuKernels)),
                     {.threads = options_.threads,
                      .isa = options_.isa,
                      .checkMemory = options_.checkMemory,
                      .tuningPath = path_ + ".tuning.json"});
  if (!executor.isOk())
    return executor.status();
  executor_ = std::move(*executor);
  TAPEOUT_RETURN_IF_ERROR(initialize());
  if (options_.bench)
    return bench(*counter);
  if (!options_.data.empty())
    TAPEOUT_RETURN_IF_ERROR(train());
  else if (!options_.evalData.empty())
    TAPEOUT_RETURN_IF_ERROR(evaluateOnly());
  if (!options_.exportPath.empty())
    TAPEOUT_RETURN_IF_ERROR(exportParameters(*executor_, options_.exportPath));
  if (options_.generate)
    TAPEOUT_RETURN_IF_ERROR(generateText());
  if (options_.checkMemory)
    fmt::print(stderr, "memory check: the programs touch {} of the {} arena bytes planned\n",
               executor_->arenaHighWater(), plan_.arenaBytes());
  return Status::ok();
}

/// Finds out now, and not when hours of training are to be stored.
Status Run::checkOutputs() {
  for (const std::string &path : {options_.exportPath, options_.trace})
    if (!path.empty())
      if (Result<AtomicFile> probe = AtomicFile::create(path); !probe.isOk())
        return probe.status();
  return options_.checkpointDirectory.empty() || options_.data.empty() ? Status::ok() : claimCheckpointDirectory();
}

Status Run::claimCheckpointDirectory() {
  const std::string &directory = options_.checkpointDirectory;
  std::error_code error;
  if (options_.resume && !std::filesystem::exists(directory, error))
    return Status::ok(); // resume() says what is missing
  std::filesystem::create_directories(directory, error);
  if (error || !std::filesystem::is_directory(directory, error))
    return Status::error(ExitCode::CannotCreate,
                         fmt::format("the checkpoint directory '{}' cannot be made ({}); give another one", directory,
                                     error ? error.message() : "it is no directory"));
  if (!options_.resume && !std::filesystem::is_empty(directory, error))
    return Status::error(
        ExitCode::BadConfig,
        fmt::format("'{}' is not empty; add --resume to go on from its newest checkpoint, or give another "
                    "--checkpoint-dir",
                    directory));
  if (Result<AtomicFile> probe = AtomicFile::create(directory + "/probe"); !probe.isOk())
    return Status::error(ExitCode::CannotCreate,
                         fmt::format("{}; give a --checkpoint-dir that can be written", probe.status().message()));
  Result<FolderLock> lock = FolderLock::take(directory);
  if (!lock.isOk())
    return lock.status();
  checkpointLock_.emplace(std::move(*lock));
  return Status::ok();
}

Status Run::initialize() {
  config_ = defaultHyperparameters(plan_);
  TAPEOUT_RETURN_IF_ERROR(options_.resume ? resume() : start());
  for (const auto &[name, value] : options_.hyperparameters)
    config_[name] = value;
  TAPEOUT_RETURN_IF_ERROR(takeSteps());
  config_["seed"] = static_cast<double>(seed_);
  return writeConfig(*executor_, config_);
}

Status Run::start() {
  seed_ = options_.seed ? *options_.seed : static_cast<uint64_t>(config_["seed"]);
  const Section *weights = firstOf(package_, SectionKind::Weights);
  if (weights)
    TAPEOUT_RETURN_IF_ERROR(package_.verify(*weights));
  TAPEOUT_RETURN_IF_ERROR(initializeState(*executor_, bytesOf(weights), seed_));
  return options_.init.empty() ? Status::ok() : importParameters(*executor_, options_.init);
}

/// Hyperparameters go on with their values of before, unless the command line gives others.
Status Run::resume() {
  Result<LoadedCheckpoint> checkpoint = loadCheckpoint(options_.checkpointDirectory, plan_.hash());
  if (!checkpoint.isOk())
    return checkpoint.status();
  for (const auto &[name, value] : checkpoint->manifest.config) {
    TAPEOUT_RETURN_IF_ERROR(checkHyperparameter(name, value, checkpoint->path + ": " + name));
    config_[name] = value;
  }
  seed_ = static_cast<uint64_t>(config_["seed"]);
  if (options_.seed && *options_.seed != seed_)
    return Status::error(
        ExitCode::BadConfig,
        fmt::format("--seed: the checkpoint was made with the seed {}; resume with it or leave the option out", seed_));
  TAPEOUT_RETURN_IF_ERROR(initializeState(*executor_, {}, seed_));
  TAPEOUT_RETURN_IF_ERROR(restoreState(*executor_, *checkpoint));
  stepsDone_ = checkpoint->manifest.step;
  position_ = checkpoint->manifest.position;
  return Status::ok();
}

/// Schedules end with the run.
Status Run::takeSteps() {
  if (options_.steps)
    config_["total_steps"] = static_cast<double>(*options_.steps);
  if (!options_.data.empty() && config_["total_steps"] < 1)
    return Status::error(ExitCode::BadConfig, "--steps: there is no number of steps to train; give --steps N");
  if (static_cast<double>(options_.traceFrom) > config_["total_steps"])
    return Status::error(ExitCode::BadConfig, fmt::format("--trace-from: this run ends with step {}; give an earlier step",
                                                          config_["total_steps"]));
  return Status::ok();
}

Result<std::unique_ptr<DataLoader>> Run::openData(bool evaluation) {
  const plan::Program *program = plan_.program(evaluation ? "evaluate" : "step");
  if (!program)
    return Status::error(ExitCode::BadConfig,
                         fmt::format("{}: this executable holds no program for it; compile the model with a loss",
                                     evaluation ? "--eval-data" : "--data"));
  DataSpec spec = dataSpecOf(plan_, *program);
  spec.dataPath = evaluation ? options_.evalData : options_.data;
  spec.labelsPath = evaluation ? options_.evalLabels : options_.labels;
  std::error_code ignored;
  bool isText = readsTokens(spec.task);
  bool needsLabels = !isText && !std::filesystem::is_directory(spec.dataPath, ignored);
  if (needsLabels && spec.labelsPath.empty())
    return Status::error(ExitCode::MissingInput,
                         fmt::format("this model needs labels beside {}; give a .npy file with {}",
                                     evaluation ? "--eval-data" : "--data", evaluation ? "--eval-labels" : "--labels"));
  if (!needsLabels && !spec.labelsPath.empty())
    return Status::error(ExitCode::Usage, fmt::format("{}: the labels of {}; leave the option out",
                                                      evaluation ? "--eval-labels" : "--labels",
                                                      isText ? "a language model are tokens of its data"
                                                             : "a folder of images are the folders in it"));
  spec.images = options_.images;
  spec.readers = options_.dataThreads;
  spec.seed = seed_;
  spec.shuffle = !evaluation;
  return DataLoader::create(spec);
}

Status Run::train() {
  Result<std::unique_ptr<DataLoader>> data = openData(/*evaluation=*/false);
  if (!data.isOk())
    return data.status();
  std::unique_ptr<DataLoader> evalData;
  if (!options_.evalData.empty()) {
    Result<std::unique_ptr<DataLoader>> opened = openData(/*evaluation=*/true);
    if (!opened.isOk())
      return opened.status();
    evalData = std::move(*opened);
    if (evalData->classNames() != (*data)->classNames())
      return Status::error(ExitCode::BadData, fmt::format("the folders in {} have other names than those in {}, so that their labels "
                                                          "would differ; give both the same", options_.evalData, options_.data));
  }
  if (stepsDone_ > 0)
    TAPEOUT_RETURN_IF_ERROR((*data)->seek(position_));
  Result<std::unique_ptr<MetricsWriter>> metrics = MetricsWriter::create({.logDirectory = options_.logDirectory,
                                                                          .terminal = isatty(STDOUT_FILENO) == 1,
                                                                          .out = stdout,
                                                                          .resumedStep = stepsDone_});
  if (!metrics.isOk())
    return metrics.status();

  TrainerOptions options;
  options.steps = static_cast<uint64_t>(config_["total_steps"]);
  options.stepsDone = stepsDone_;
  options.config = config_;
  options.checkpointDirectory = options_.checkpointDirectory;
  options.checkpointEvery = options_.checkpointEvery;
  options.keep = options_.keep;
  options.evalEvery = options_.evalEvery;
  options.tracePath = options_.trace;
  options.traceFrom = options_.traceFrom;
  fmt::print("{}: {} samples per step, {}; {}{}\n", printable(plan_.model().name()), plan_.model().batch(),
             executor_->description(), (*data)->description(),
             stepsDone_ > 0 ? fmt::format("; resumed after step {}", stepsDone_) : "");
  std::fflush(stdout);
  return Trainer(*executor_, **data, evalData.get(), **metrics, stop_, std::move(options)).run();
}

Status Run::bench(const Result<MissCounter> &counter) {
  std::unique_ptr<DataLoader> data;
  if (!options_.data.empty()) {
    Result<std::unique_ptr<DataLoader>> opened = openData(/*evaluation=*/false);
    if (!opened.isOk())
      return opened.status();
    data = std::move(*opened);
  }
  return serveBench(*executor_, data.get(), counter, stdin, stdout);
}

Status Run::evaluateOnly() {
  Result<std::unique_ptr<DataLoader>> data = openData(/*evaluation=*/true);
  if (!data.isOk())
    return data.status();
  Result<std::optional<double>> loss = evaluate(*executor_, **data, stop_);
  if (!loss.isOk())
    return loss.status();
  if (!*loss)
    return Status::error(ExitCode::StoppedBySignal, fmt::format("stopped by {} during the evaluation", stop_.name()));
  fmt::print("evaluation loss {:.6f}\n", **loss);
  return Status::ok();
}

Status Run::generateText() {
  GenerateOptions options{.prompt = *options_.generate,
                          .tokens = options_.tokens,
                          .temperature = options_.temperature,
                          .topK = options_.topK,
                          .seed = options_.seed.value_or(seed_)};
  bool first = true;
  auto emit = [&](int64_t token) {
    // The prompt appears only when the first token shows that it was accepted.
    std::string text = first ? options.prompt + (plan_.model().vocabulary() == 256 ? "" : ",") : "";
    first = false;
    text += tokenText(plan_.model(), token);
    std::fwrite(text.data(), 1, text.size(), stdout);
    std::fflush(stdout);
  };
  Status status = generate(*executor_, options, stop_, emit);
  if (!first)
    std::fputc('\n', stdout);
  return status;
}

} // namespace

Status run(int argc, const char *const *argv) {
  std::string path = packagePath(argc, argv);
  Result<Package> package = openPackage(path);
  if (!package.isOk())
    return package.status();
  const Section *section = firstOf(*package, SectionKind::Plan);
  if (!section)
    return Status::error(
        ExitCode::MissingInput,
        fmt::format("'{}' holds no plan, so there is nothing to train; make a training executable with "
                    "`tapeout compile MODEL -o NAME`, or give --plan FILE",
                    path));
  Result<Plan> plan = Plan::load(section->bytes);
  if (!plan.isOk())
    return plan.status();
  Result<std::variant<Options, std::string>> options = parseOptions(argc, argv, *plan);
  if (!options.isOk())
    return options.status();
  if (const std::string *help = std::get_if<std::string>(&*options)) {
    fmt::print("{}", *help);
    return Status::ok();
  }
  if (std::get<Options>(*options).describe) {
    fmt::print("{}", describePlan(*plan));
    return Status::ok();
  }
  return Run(*package, *plan, path, std::get<Options>(*options))();
}

} // namespace tapeout::runner
