#include "runtime/io/Metrics.h"

#include "runtime/base/AtomicFile.h"
#include "runtime/base/Json.h"
#include "runtime/io/AppendFile.h"
#include "runtime/io/EventFile.h"
#include "runtime/io/Progress.h"

#include <fmt/format.h>

#include <chrono>
#include <filesystem>
#include <vector>

namespace tapeout::rt {

struct MetricsWriter::State {
  Progress progress;
  std::optional<AppendFile> lines;
  std::optional<EventFile> events;
};

static std::string jsonLine(const StepMetrics &metrics) {
  nlohmann::ordered_json json;
  json["step"] = metrics.step;
  json["loss"] = metrics.loss;
  json["grad_norm"] = metrics.gradNorm;
  json["lr"] = metrics.lr;
  json[metrics.unit + "_per_s"] = metrics.throughput;
  json["data_wait"] = metrics.dataWaitShare;
  if (metrics.lossScale) {
    json["loss_scale"] = *metrics.lossScale;
    json["skipped_steps"] = metrics.skippedSteps;
  }
  if (metrics.evalLoss)
    json["eval_loss"] = *metrics.evalLoss;
  return json.dump() + "\n";
}

/// Whether this is a complete line of a step that a run resumed after `resumedStep` keeps.
static bool isKept(std::string_view line, uint64_t resumedStep) {
  Result<nlohmann::json> json = parseJson(line, "metrics.jsonl", {.bytes = 65536, .depth = 4, .values = 100});
  if (!json.isOk() || !json->is_object())
    return false;
  auto step = json->find("step");
  return step != json->end() && step->is_number_unsigned() && step->get<uint64_t>() <= resumedStep;
}

/// How much of the file belongs to the steps up to `resumedStep`; it is looked through from its end.
static uint64_t keptBytes(const std::string &path, uint64_t resumedStep) {
  if (resumedStep == 0)
    return 0;
  Result<MappedFile> file = MappedFile::open(path);
  if (!file.isOk())
    return 0; // a new file, or AppendFile says what is wrong
  std::string_view text(reinterpret_cast<const char *>(file->bytes().data()), file->size());
  while (!text.empty()) {
    size_t start = text.size() > 1 ? text.rfind('\n', text.size() - 2) + 1 : 0; // npos + 1 is 0
    if (text.back() == '\n' && isKept(text.substr(start), resumedStep))
      break;
    text = text.substr(0, start);
  }
  return text.size();
}

MetricsWriter::MetricsWriter(std::unique_ptr<State> state) : state_(std::move(state)) {}
MetricsWriter::~MetricsWriter() { endLine(); }

Result<std::unique_ptr<MetricsWriter>> MetricsWriter::create(const MetricsOptions &options) {
  auto state = std::make_unique<State>(State{Progress(options.out, options.terminal), std::nullopt, std::nullopt});
  if (!options.logDirectory.empty()) {
    std::error_code failure;
    std::filesystem::create_directories(options.logDirectory, failure);
    if (failure)
      return Status::error(ExitCode::CannotCreate,
                           fmt::format("{}: the log directory cannot be made ({}); give another one",
                                       options.logDirectory, failure.message()));
    std::string path = options.logDirectory + "/metrics.jsonl";
    Result<AppendFile> lines = AppendFile::open(path, keptBytes(path, options.resumedStep));
    if (!lines.isOk())
      return lines.status();
    Result<EventFile> events = EventFile::create(options.logDirectory, options.resumedStep + 1);
    if (!events.isOk())
      return events.status();
    state->lines = std::move(*lines);
    state->events = std::move(*events);
  }
  return std::unique_ptr<MetricsWriter>(new MetricsWriter(std::move(state)));
}

Status MetricsWriter::record(const StepMetrics &metrics) {
  state_->progress.report(metrics);
  if (!state_->lines)
    return Status::ok();
  TAPEOUT_RETURN_IF_ERROR(state_->lines->append(jsonLine(metrics)));
  std::vector<Scalar> scalars = {
      {"train/loss", metrics.loss}, {"train/grad_norm", metrics.gradNorm}, {"train/lr", metrics.lr}};
  if (metrics.lossScale)
    scalars.push_back({"train/loss_scale", *metrics.lossScale});
  if (metrics.evalLoss)
    scalars.push_back({"eval/loss", *metrics.evalLoss});
  double wallTime = std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
  return state_->events->write(metrics.step, wallTime, scalars);
}

void MetricsWriter::endLine() { state_->progress.endLine(); }

void MetricsWriter::note(const std::string &lines) { state_->progress.note(lines); }

} // namespace tapeout::rt
