#include "tools/tapeout-runner/Options.h"

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>

namespace tapeout::runner {
namespace {

struct HyperparameterOption {
  const char *name, *option, *help;
};

// "schedule", "seed" and "total_steps" are options of their own kind.
constexpr std::array<HyperparameterOption, 9> kHyperparameterOptions = {{
    {"lr", "--lr", "peak learning rate"},
    {"warmup_steps", "--warmup", "steps of linear warm-up"},
    {"min_lr_ratio", "--min-lr-ratio", "final learning rate divided by the peak"},
    {"weight_decay", "--weight-decay", "weight decay"},
    {"beta1", "--beta1", "decay of the first moment"},
    {"beta2", "--beta2", "decay of the second moment"},
    {"epsilon", "--epsilon", "added to the denominator"},
    {"momentum", "--momentum", "momentum"},
    {"clip", "--clip", "largest global norm of the gradients; 0: no clipping"},
}};
constexpr uint64_t kMaxCount = (uint64_t(1) << 53) - 1; // exact as a float64
constexpr std::array<const char *, 3> kScheduleNames = {"constant", "linear", "cosine"}; // a ScheduleKind each

/// Values from CLI11 before they are checked.
struct Parsed {
  std::array<double, kHyperparameterOptions.size()> hyperparameters = {};
  std::string schedule, plan, prompt, isa;
  uint64_t steps = 0, seed = 0;
};

void addOptions(CLI::App &app, Options &options, Parsed &parsed, const rt::Plan &plan) {
  auto defaultText = [&](const char *name) { return fmt::format(" [{:g}]", plan.defaultOf(name)->value()); };
  app.add_option("--plan", parsed.plan, "read the compiled model from this file instead of the executable itself");
  app.add_option("--data", options.data, "training data: text, an llm.c token shard, a .npy array, or a folder of images by class");
  app.add_option("--labels", options.labels, "labels of a .npy array");
  const CLI::Range count(uint64_t(0), kMaxCount, "UINT");
  app.add_option("--steps", parsed.steps, "steps of the whole run, those before --resume included")->check(count);
  for (size_t i = 0; i < kHyperparameterOptions.size(); ++i)
    if (const HyperparameterOption &entry = kHyperparameterOptions[i]; plan.defaultOf(entry.name))
      app.add_option(entry.option, parsed.hyperparameters[i], entry.help + defaultText(entry.name));
  if (plan.defaultOf("schedule"))
    app.add_option("--schedule", parsed.schedule,
                   "learning rate over the steps: constant, linear or cosine" + defaultText("schedule"));
  app.add_option("--seed", parsed.seed, "of parameters, data order, dropout and sampling")->check(count);
  app.add_option("--isa", parsed.isa, "avx2 or avx512; the results do not depend on it [the widest there is]")
      ->check(CLI::IsMember({"avx2", "avx512"}));
  app.add_option("--threads", options.threads, "threads; the results do not depend on it [all]")
      ->check(CLI::Range(1, 1024));

  app.add_option("--log-dir", options.logDirectory, "write metrics.jsonl and TensorBoard events here");
  app.add_option("--checkpoint-dir", options.checkpointDirectory, "write checkpoints here");
  app.add_option("--checkpoint-every", options.checkpointEvery, "steps between checkpoints [only at the end]")
      ->check(count);
  app.add_option("--keep", options.keep, "checkpoints to keep [3]")->check(CLI::Range(1, 1'000'000));
  app.add_flag("--resume", options.resume, "go on from the newest checkpoint in --checkpoint-dir");
  app.add_option("--init", options.init, "start from the parameters in this safetensors file");
  app.add_option("--export", options.exportPath, "write the parameters to this safetensors file at the end");

  app.add_option("--eval-data", options.evalData, "data for the evaluation loss");
  app.add_option("--eval-labels", options.evalLabels, "labels for --eval-data");
  app.add_option("--image-mean", options.images.mean, "of each channel, pixels from 0 to 1, separated by commas [ImageNet's]")
      ->delimiter(',');
  app.add_option("--image-std", options.images.deviation, "deviation, like --image-mean")->delimiter(',');
  app.add_option("--data-threads", options.dataThreads, "threads that decode images; the results do not depend on it [all]")
      ->check(CLI::Range(1, 1024));
  app.add_option("--eval-every", options.evalEvery, "steps between evaluations [only at the end]")
      ->check(count);

  app.add_option("--generate", parsed.prompt, "generate tokens after this prompt, after training if there is --data");
  app.add_option("--tokens", options.tokens, "tokens to generate [100]")->check(count);
  app.add_option("--temperature", options.temperature, "0 takes the most likely token [1]")
      ->check(CLI::Range(0.0, 1e6));
  app.add_option("--top-k", options.topK, "choose among the k most likely tokens; 0: all [0]")
      ->check(CLI::Range(int64_t(0), int64_t(1) << 40));

  app.add_option("--trace", options.trace, "write when each kernel of four steps ran, for chrome://tracing, and a table (.txt)");
  app.add_option("--trace-from", options.traceFrom, "the first step of --trace [the second of this run]")->check(count);
  app.add_flag("--describe", options.describe, "print what this executable holds");
  app.add_flag("--bench", options.bench)->group(""); // the other end of `tapeout bench`: not for hands
  app.add_flag("--check-memory", options.checkMemory, "prove the memory plan and fill dead memory with NaN (slow)");
}

Status usage(const std::string &message) { return Status::error(ExitCode::Usage, message); }

/// An empty value is most often a shell variable that is not set. Only a prompt may be empty.
Status checkNotEmpty(const CLI::App &app) {
  for (const CLI::Option *option : app.get_options())
    for (const std::string &value : option->results())
      if (value.empty() && option->get_name() != "--generate")
        return usage(fmt::format("{} has an empty value; give one or leave the option out", option->get_name()));
  return Status::ok();
}

/// A better sentence than "unknown option" for a hyperparameter that this plan does not have.
Status explainParseError(const CLI::App &app, const CLI::ParseError &error, const rt::Plan &plan) {
  bool badValue =
      dynamic_cast<const CLI::ValidationError *>(&error) || dynamic_cast<const CLI::ConversionError *>(&error);
  if (badValue)
    return Status::error(ExitCode::BadConfig, fmt::format("{}; see --help", error.what()));
  for (const std::string &extra : app.remaining())
    for (const HyperparameterOption &entry : kHyperparameterOptions)
      if (extra.substr(0, extra.find('=')) == entry.option)
        return usage(
            fmt::format("{}: the optimizer '{}' of this executable has no {}; leave the option out or compile the "
                        "model with another --optimizer",
                        entry.option, rt::printable(plan.root().optimizer()), entry.name));
  return usage(fmt::format("{}; see --help", error.what()));
}

Status takeHyperparameters(const CLI::App &app, const Parsed &parsed, Options &options) {
  auto isGiven = [&](const char *option) {
    const CLI::Option *found = app.get_option_no_throw(option);
    return found && found->count() > 0;
  };
  for (size_t i = 0; i < kHyperparameterOptions.size(); ++i) {
    const HyperparameterOption &entry = kHyperparameterOptions[i];
    if (!isGiven(entry.option))
      continue;
    TAPEOUT_RETURN_IF_ERROR(rt::checkHyperparameter(entry.name, parsed.hyperparameters[i], entry.option));
    options.hyperparameters[entry.name] = parsed.hyperparameters[i];
  }
  if (isGiven("--schedule")) {
    auto found = std::find(kScheduleNames.begin(), kScheduleNames.end(), parsed.schedule);
    if (found == kScheduleNames.end())
      return Status::error(
          ExitCode::BadConfig,
          fmt::format("--schedule: there is no schedule '{}'; give constant, linear or cosine", parsed.schedule));
    options.hyperparameters["schedule"] = static_cast<double>(found - kScheduleNames.begin());
  }
  if (isGiven("--steps")) {
    TAPEOUT_RETURN_IF_ERROR(rt::checkHyperparameter("total_steps", static_cast<double>(parsed.steps), "--steps"));
    options.steps = parsed.steps;
  }
  if (isGiven("--seed")) {
    TAPEOUT_RETURN_IF_ERROR(rt::checkHyperparameter("seed", static_cast<double>(parsed.seed), "--seed"));
    options.seed = parsed.seed;
  }
  if (isGiven("--generate"))
    options.generate = parsed.prompt;
  if (isGiven("--isa"))
    options.isa = parsed.isa == "avx512" ? rt::CpuIsa::Avx512 : rt::CpuIsa::Avx2;
  return Status::ok();
}

Status checkCombination(const Options &options) {
  if (options.data.empty() && options.evalData.empty() && !options.generate && !options.describe &&
      !options.bench && options.exportPath.empty())
    return usage(
        "there is nothing to do; give --data to train, --eval-data to evaluate, --generate, --export or --describe "
        "(see --help)");
  if (!options.labels.empty() && options.data.empty())
    return usage("--labels belongs to --data; give --data as well, or --eval-labels to evaluate");
  if (!options.evalLabels.empty() && options.evalData.empty())
    return usage("--eval-labels belongs to --eval-data; give --eval-data as well");
  if (!std::isfinite(options.temperature))
    return Status::error(ExitCode::BadConfig, "--temperature is not a number; give one from 0 to 1e6");
  if (options.resume && options.checkpointDirectory.empty())
    return usage("--resume needs --checkpoint-dir, the directory to go on from");
  if (options.resume && !options.init.empty())
    return usage("--resume and --init contradict each other; give one of them");
  if (options.checkpointEvery > 0 && options.checkpointDirectory.empty())
    return usage("--checkpoint-every needs --checkpoint-dir, the directory to write to");
  if (options.evalEvery > 0 && options.evalData.empty())
    return usage("--eval-every needs --eval-data");
  if (!options.trace.empty() && options.data.empty())
    return usage("--trace shows training steps; give --data as well");
  if (options.traceFrom > 0 && options.trace.empty())
    return usage("--trace-from needs --trace, the file to write");
  return Status::ok();
}

} // namespace

std::string packagePath(int argc, const char *const *argv) {
  for (int i = 1; i < argc; ++i) {
    std::string_view argument = argv[i];
    if (argument == "--plan" && i + 1 < argc)
      return argv[i + 1];
    if (argument.starts_with("--plan="))
      return std::string(argument.substr(7));
  }
  std::error_code error;
  std::filesystem::path self = std::filesystem::read_symlink("/proc/self/exe", error);
  // The link names a file that may be gone or replaced; it itself always leads to the running one.
  return !error && std::filesystem::exists(self, error) ? self.string() : "/proc/self/exe";
}

Result<std::variant<Options, std::string>> parseOptions(int argc, const char *const *argv, const rt::Plan &plan) {
  Options options;
  Parsed parsed;
  CLI::App app(fmt::format("Trains the model '{}'.", rt::printable(plan.model().name())));
  addOptions(app, options, parsed, plan);
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp &) {
    return std::variant<Options, std::string>(app.help());
  } catch (const CLI::ParseError &error) {
    return explainParseError(app, error, plan);
  }
  TAPEOUT_RETURN_IF_ERROR(checkNotEmpty(app));
  TAPEOUT_RETURN_IF_ERROR(takeHyperparameters(app, parsed, options));
  TAPEOUT_RETURN_IF_ERROR(checkCombination(options));
  return std::variant<Options, std::string>(std::move(options));
}

} // namespace tapeout::runner
