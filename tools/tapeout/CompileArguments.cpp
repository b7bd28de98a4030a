#include "tools/tapeout/CompileArguments.h"

#include "frontend/ModelFile.h"

#include "llvm/ADT/StringRef.h"

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <chrono>
#include <cmath>
#include <filesystem>

namespace tapeout::cli {

// Each chunk is a kernel to compile, and smaller chunks save no more memory long before.
constexpr int64_t kMostLossChunks = 256;

void CompileArguments::addTo(CLI::App &command) {
  command.add_option("model", model, "Model file (.tape)")->required();
  command.add_option("--target", target, "cpu, cuda or cuda:sm_80,sm_90 (default: cuda where this machine has a GPU, else cpu)");
  command.add_option("--batch", batch, "Samples per step (default 12 for language models, else 64)");
  command.add_option("--optimizer", optimizer, "adamw, adam, sgd, momentum or nesterov")
      ->check(CLI::IsMember({"adamw", "adam", "sgd", "momentum", "nesterov"}));
  command.add_option("--loss", loss, "Default: what the model's task needs")
      ->check(CLI::IsMember({"cross_entropy", "mean_squared_error"}));
  command.add_option("--label-smoothing", labelSmoothing, "Share of the target that all classes divide among them (cross_entropy)");
  command.add_option("--freeze", freeze, "Parameters that are not trained: name patterns with * and ?");
  command.add_option("--no-decay", noDecay, "Parameters without weight decay: name patterns with * and ?");
  command.add_option("--precision", precision, "Of products and activations; parameters and optimizer are fp32")
      ->check(CLI::IsMember(precisions))
      ->capture_default_str();
  command.add_option("--amp-level", ampLevel, "O1: as PyTorch's autocast; O2: parameters and residual in low precision too")
      ->check(CLI::IsMember({"O1", "O2"}));
  command.add_option("--loss-scale", lossScale, "torch or paddle: dynamic, with their rules; a number; none (default: torch for fp16)");
  command.add_option("--keep-fp32", keepFp32, "Layers that stay fp32: name patterns with * and ?");
  command.add_option("--deterministic", deterministic,
                     "on: the same bits in every run; off: cuDNN may add the gradients of attention in any order (cuda)")
      ->check(CLI::IsMember({"on", "off"}))
      ->capture_default_str();
  command.add_option("--loss-chunks", lossChunks,
                     "Chunks that logits and their gradient are computed in, one after the other; 1: all at once; "
                     "auto: large ones in a few")
      ->capture_default_str();
  command.add_flag("--no-fusion", noFusion, "One kernel per op, to compare with");
  command.add_option("--skip-pass", skipped, "Leave out an optional pass, to see what it does; may be repeated")
      ->check(CLI::IsMember(std::vector<std::string>(std::begin(optionalPasses), std::end(optionalPasses))));
  command.add_option("--threads", threads, "Compile threads (default: one per processor)");
  command.add_option("--save-ir", saveIr, "Folder for the IR after every pass");

  const char *group = "Defaults of the executable, which its own command line can change";
  command.add_option("--lr", lr, "Peak learning rate")->group(group);
  command.add_option("--schedule", schedule, "constant, linear or cosine")
      ->check(CLI::IsMember({"constant", "linear", "cosine"}))
      ->group(group);
  command.add_option("--min-lr-ratio", minLrRatio, "Final learning rate / peak")->group(group);
  command.add_option("--warmup", warmup, "Steps of linear warm-up")->group(group);
  command.add_option("--weight-decay", weightDecay)->group(group);
  command.add_option("--beta1", beta1)->group(group);
  command.add_option("--beta2", beta2)->group(group);
  command.add_option("--epsilon", epsilon)->group(group);
  command.add_option("--momentum", momentum)->group(group);
  command.add_option("--clip", clip, "Bound of the gradients' global norm; 0 switches clipping off")->group(group);
  command.add_option("--seed", seed, "Seed of initialisation, data order and dropout")->group(group);
}

Result<CompileInput> CompileArguments::load() const {
  Result<frontend::Graph> graph = frontend::readModel(model);
  if (!graph.isOk())
    return graph.status();
  Result<driver::CompileOptions> checked = options(*graph);
  if (!checked.isOk())
    return checked.status();
  return CompileInput{std::move(*graph), std::move(*checked)};
}

Status CompileArguments::checkOutput(const std::string &output) const {
  std::error_code error;
  if (!output.empty() && std::filesystem::equivalent(model, output, error))
    return Status::error(ExitCode::Usage, fmt::format("-o {} would overwrite the model file; give another name", output));
  return Status::ok();
}

namespace {

Status checkInteger(const char *option, std::optional<double> value) {
  if (!value || *value == std::floor(*value))
    return Status::ok();
  return Status::error(ExitCode::BadConfig, fmt::format("{} is {}, but must be an integer", option, *value));
}

Status checkRange(const char *option, std::optional<double> value, double least, double below) {
  if (!value || (*value >= least && *value < below))
    return Status::ok();
  return Status::error(ExitCode::BadConfig, fmt::format("{} is {}, but must be at least {} and below {}", option, *value, least, below));
}

} // namespace

Status CompileArguments::setDeterministic(driver::CompileOptions &options) const {
  options.training.deterministic = deterministic == "on";
  if (!options.training.deterministic && options.target.name != "cuda")
    return Status::error(ExitCode::BadConfig,
                         fmt::format("--deterministic off is for the target cuda; {} has nothing faster to offer", options.target.name));
  return Status::ok();
}

Status CompileArguments::setPrecision(TrainingOptions &training) const {
  bool mixed = precision == "bf16" || precision == "fp16";
  if (!mixed && (!ampLevel.empty() || !keepFp32.empty()))
    return Status::error(ExitCode::BadConfig, fmt::format("{} is about mixed precision; give --precision bf16 or fp16 with it",
                                                          ampLevel.empty() ? "--keep-fp32" : "--amp-level"));
  training.precision = mixed ? precision : "fp32";
  if (!ampLevel.empty())
    training.ampLevel = ampLevel;
  training.keepFp32 = keepFp32;
  training.lossScale = !lossScale.empty() ? lossScale : precision == "fp16" ? "torch" : "none";
  double number = 0;
  bool named = training.lossScale == "none" || training.lossScale == "torch" || training.lossScale == "paddle";
  if (!named && (llvm::StringRef(lossScale).getAsDouble(number) || !(number > 0 && number < 1e30)))
    return Status::error(ExitCode::BadConfig, fmt::format("--loss-scale is {}, but must be torch, paddle, none or a positive number",
                                                          lossScale));
  return Status::ok();
}

Result<driver::CompileOptions> CompileArguments::options(const frontend::Graph &graph) const {
  driver::CompileOptions result;
  if (batch && (*batch < 1 || *batch > 1 << 20))
    return Status::error(ExitCode::BadConfig, fmt::format("--batch is {}, but must be between 1 and {}", *batch, 1 << 20));
  if (target.empty()) {
    result.target = driver::defaultTarget();
  } else {
    Result<driver::TargetChoice> choice = driver::parseTarget(target);
    if (!choice.isOk())
      return choice.status();
    result.target = *choice;
  }
  result.batch = batch.value_or(driver::defaultBatch(graph.task));
  bool regression = graph.task == frontend::Task::Regression;
  result.training.loss = !loss.empty() ? loss : regression ? "mean_squared_error" : "cross_entropy";
  result.training.ignoreIndex = graph.ignoreIndex;
  TAPEOUT_RETURN_IF_ERROR(checkRange("--label-smoothing", labelSmoothing, 0, 1));
  result.training.labelSmoothing = labelSmoothing.value_or(0);
  if (result.training.labelSmoothing > 0 && result.training.loss != "cross_entropy")
    return Status::error(ExitCode::BadConfig, fmt::format("--label-smoothing smooths the labels of cross_entropy, but the loss "
                                                          "is {}; leave the option out", result.training.loss));
  result.training.optimizer = optimizer;
  result.training.noDecay = noDecay;
  TAPEOUT_RETURN_IF_ERROR(setPrecision(result.training));
  TAPEOUT_RETURN_IF_ERROR(setDeterministic(result));
  int64_t chunks = 0;
  if (lossChunks != "auto" && (llvm::StringRef(lossChunks).getAsInteger(10, chunks) || chunks < 1 || chunks > kMostLossChunks))
    return Status::error(ExitCode::BadConfig, fmt::format("--loss-chunks is {}, but must be auto or between 1 and {}",
                                                          lossChunks, kMostLossChunks));
  result.training.lossChunks = chunks;
  result.training.fusion = !noFusion;
  result.training.skipped = skipped;
  result.freeze = freeze;
  result.threads = threads;
  result.saveIr = saveIr;

  constexpr double kAny = 1e30, kSeeds = 9007199254740992.0;
  TAPEOUT_RETURN_IF_ERROR(checkRange("--lr", lr, 0, kAny));
  if (minLrRatio && !(*minLrRatio >= 0 && *minLrRatio <= 1))
    return Status::error(ExitCode::BadConfig, fmt::format("--min-lr-ratio is {}, but must be from 0 to 1", *minLrRatio));
  TAPEOUT_RETURN_IF_ERROR(checkRange("--warmup", warmup, 0, 1e15));
  TAPEOUT_RETURN_IF_ERROR(checkRange("--weight-decay", weightDecay, 0, kAny));
  TAPEOUT_RETURN_IF_ERROR(checkRange("--beta1", beta1, 0, 1));
  TAPEOUT_RETURN_IF_ERROR(checkRange("--beta2", beta2, 0, 1));
  TAPEOUT_RETURN_IF_ERROR(checkRange("--epsilon", epsilon, 0, kAny));
  TAPEOUT_RETURN_IF_ERROR(checkRange("--momentum", momentum, 0, 1));
  TAPEOUT_RETURN_IF_ERROR(checkRange("--clip", clip, 0, kAny));
  TAPEOUT_RETURN_IF_ERROR(checkRange("--seed", seed, 0, kSeeds));
  TAPEOUT_RETURN_IF_ERROR(checkInteger("--warmup", warmup));
  TAPEOUT_RETURN_IF_ERROR(checkInteger("--seed", seed));
  if (threads > 1024)
    return Status::error(ExitCode::BadConfig, fmt::format("--threads is {}, but must be at most 1024", threads));
  auto set = [&](Hyperparameter name, std::optional<double> value) {
    if (value)
      result.overrides[name] = *value;
  };
  set(Hyperparameter::LearningRate, lr);
  set(Hyperparameter::MinLearningRateRatio, minLrRatio);
  set(Hyperparameter::WarmupSteps, warmup);
  set(Hyperparameter::WeightDecay, weightDecay);
  set(Hyperparameter::Beta1, beta1);
  set(Hyperparameter::Beta2, beta2);
  set(Hyperparameter::Epsilon, epsilon);
  set(Hyperparameter::Momentum, momentum);
  set(Hyperparameter::ClipNorm, clip);
  set(Hyperparameter::Seed, seed);
  if (!schedule.empty())
    result.overrides[Hyperparameter::Schedule] =
        static_cast<double>(schedule == "linear" ? ScheduleKind::Linear : schedule == "cosine" ? ScheduleKind::Cosine : ScheduleKind::Constant);
  auto known = driver::hyperparameterDefaults([&] {
    driver::CompileOptions plain = result;
    plain.overrides.clear();
    return plain;
  }());
  for (auto [name, value] : result.overrides)
    if (!known.count(name))
      return Status::error(ExitCode::BadConfig, fmt::format("the optimizer {} has no hyperparameter {}", optimizer,
                                                            kHyperparameterNames[static_cast<size_t>(name)]));
  result.describe = fmt::format("--target {} --batch {} --optimizer {} --loss {}", result.target.text(), result.batch, optimizer, result.training.loss);
  if (result.training.labelSmoothing > 0)
    result.describe += fmt::format(" --label-smoothing {}", result.training.labelSmoothing);
  if (result.training.precision != "fp32")
    result.describe += fmt::format(" --precision {} --amp-level {}", precision, result.training.ampLevel);
  if (result.training.lossScale != "none")
    result.describe += fmt::format(" --loss-scale {}", result.training.lossScale);
  for (const std::string &pattern : keepFp32)
    result.describe += fmt::format(" --keep-fp32 '{}'", pattern);
  if (!result.training.deterministic)
    result.describe += " --deterministic off";
  if (lossChunks != "auto")
    result.describe += fmt::format(" --loss-chunks {}", lossChunks);
  if (noFusion)
    result.describe += " --no-fusion";
  for (const std::string &pass : skipped)
    result.describe += " --skip-pass " + pass;
  for (const std::string &pattern : freeze)
    result.describe += fmt::format(" --freeze '{}'", pattern);
  for (const std::string &pattern : noDecay)
    result.describe += fmt::format(" --no-decay '{}'", pattern);
  return result;
}

namespace {

/// The runner that every executable starts from: it lies beside tapeout.
Result<std::string> findRunner() {
  std::error_code error;
  std::filesystem::path self = std::filesystem::read_symlink("/proc/self/exe", error);
  std::filesystem::path runner = self.parent_path() / "tapeout-runner";
  if (error || !std::filesystem::exists(runner, error))
    return Status::error(ExitCode::MissingInput, fmt::format("cannot find {}, which every executable starts from; build it or put it "
                                                             "beside the tapeout binary", runner.string()));
  return runner.string();
}

} // namespace

Result<CompileSummary> compileTo(const CompileArguments &arguments, const std::string &output, bool withRunner) {
  auto start = std::chrono::steady_clock::now();
  auto seconds = [&] { return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count(); };
  Result<CompileInput> input = arguments.load();
  if (!input.isOk())
    return input.status();
  Result<std::string> runner = withRunner ? findRunner() : std::string();
  if (!runner.isOk())
    return runner.status();
  driver::Compilation compilation(input->graph, input->options);
  TAPEOUT_RETURN_IF_ERROR(compilation.import());
  TAPEOUT_RETURN_IF_ERROR(compilation.runPasses());
  CompileSummary summary{.batch = input->options.batch, .passSeconds = seconds()};
  TAPEOUT_RETURN_IF_ERROR(compilation.writeExecutable(*runner, arguments.model, output));
  summary.target = input->options.target.text();
  if (!compilation.assembler().empty())
    summary.target += compilation.assembler() == "none" ? " (PTX, which the driver assembles)" : " by " + compilation.assembler();
  if (arguments.target.empty() && input->options.target.name != "cpu")
    summary.target += " (this machine's GPU)";
  summary.kernelSeconds = seconds() - summary.passSeconds;
  auto bytes = [&](const char *name) { return compilation.module()->getAttrOfType<mlir::IntegerAttr>(name).getInt(); };
  summary.persistentBytes = bytes("plan.persistent_bytes");
  summary.arenaBytes = bytes("plan.arena_bytes");
  return summary;
}

} // namespace tapeout::cli
