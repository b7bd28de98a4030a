#include "runtime/Trainer.h"

#include "runtime/TraceTable.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>

namespace tapeout::rt {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int64_t kCopyGrain = 1 << 20; // bytes; below this a second thread costs more than it saves

/// Tokens of one step for language models, else samples.
double unitsPerStep(const plan::Model &model) {
  return static_cast<double>(model.batch()) * static_cast<double>(std::max<int64_t>(1, model.context()));
}

} // namespace

Status fillInputs(Executor &executor, const plan::Program &program, const Batch &batch) {
  for (const plan::NamedSlot *input : orEmpty(program.inputs())) {
    uint64_t bytes = shapeBytes(executor.plan().slot(input->slot()));
    std::span<const uint8_t> source = batch.find(input->name()->string_view());
    if (source.size() != bytes)
      return Status::error(ExitCode::BadData,
                           fmt::format("the data has no input '{}' of {} bytes; compile the model again",
                                       printable(input->name()), bytes));
    TAPEOUT_RETURN_IF_ERROR(executor.write(input->slot(), [&](std::span<uint8_t> destination) {
      executor.pool().parallelFor(static_cast<int64_t>(bytes), kCopyGrain, [&](int64_t begin, int64_t end) {
        std::memcpy(destination.data() + begin, source.data() + begin, end - begin);
      });
    }));
  }
  return Status::ok();
}

DataSpec dataSpecOf(const Plan &plan, const plan::Program &program) {
  const plan::Model &model = plan.model();
  DataSpec spec;
  spec.task = static_cast<DataTask>(model.task());
  spec.batch = model.batch();
  spec.context = model.context();
  spec.vocabulary = model.vocabulary();
  spec.ignoreIndex = model.ignore_index();
  spec.maskToken = model.mask_token();
  for (const plan::NamedSlot *input : orEmpty(program.inputs())) {
    const plan::Slot &slot = plan.slot(input->slot());
    spec.inputs.push_back({input->name()->str(), elementType(slot), shapeBytes(slot), shapeOf(slot)});
  }
  return spec;
}

Result<std::optional<double>> evaluate(Executor &executor, DataLoader &data, StopSignal &stop) {
  const plan::Program &program = *executor.plan().program("evaluate");
  double lossSum = 0, count = 0;
  TAPEOUT_RETURN_IF_ERROR(data.seek({}));
  while (true) {
    if (stop.requested())
      return std::optional<double>();
    Result<const Batch *> batch = data.next();
    if (!batch.isOk())
      return batch.status();
    if (!*batch)
      break;
    TAPEOUT_RETURN_IF_ERROR(fillInputs(executor, program, **batch));
    TAPEOUT_RETURN_IF_ERROR(executor.run(program));
    TAPEOUT_RETURN_IF_ERROR(executor.wait());
    lossSum += *readOutput(executor, program, "loss_sum");
    count += *readOutput(executor, program, "count");
  }
  if (!(count > 0))
    return Status::error(ExitCode::BadData, "the evaluation data has no label that counts; give other --eval-data");
  if (!std::isfinite(lossSum))
    return Status::error(ExitCode::NonFiniteLoss, "the evaluation loss is not finite; the parameters or the evaluation "
                                                  "data hold values that are not finite or far too large");
  return std::optional<double>(lossSum / count);
}

Trainer::Trainer(Executor &executor, DataLoader &data, DataLoader *evalData, MetricsWriter &metrics, StopSignal &stop,
                 TrainerOptions options)
    : executor_(executor), data_(data), evalData_(evalData), metrics_(metrics), stop_(stop),
      options_(std::move(options)), step_(executor.plan().program("step")), stepsDone_(options_.stepsDone) {
  if (!options_.checkpointDirectory.empty())
    checkpoints_.emplace(options_.checkpointDirectory, options_.keep);
}

Status Trainer::run() {
  if (!step_)
    return Status::error(ExitCode::BadData, "this executable holds no training step; compile the model with a loss");
  while (stepsDone_ < options_.steps) {
    TAPEOUT_RETURN_IF_ERROR(startStep());
    bool pause = pausesAfter(pending_.back().step);
    Status reported;
    while (pending_.size() > (pause || !reported.isOk() ? 0 : executor_.runsAhead())) {
      StepMetrics metrics;
      TAPEOUT_RETURN_IF_ERROR(finishStep(metrics));
      TAPEOUT_RETURN_IF_ERROR(checkFinite(metrics));
      if (std::isfinite(metrics.loss))
        lastLoss_ = metrics.loss;
      if (reported.isOk())
        reported = report(metrics);
    }
    if (!pending_.empty())
      continue;
    bool stopping = stop_.requested() && stepsDone_ < options_.steps;
    if (checkpoints_ && (checkpointDue(stepsDone_) || stopping || !reported.isOk()))
      TAPEOUT_RETURN_IF_ERROR(save());
    if (!reported.isOk()) { // the training itself is sound, so it is kept
      if (checkpoints_)
        TAPEOUT_RETURN_IF_ERROR(checkpoints_->wait());
      return reported;
    }
    if (stopping)
      return stopped();
  }
  metrics_.endLine();
  return checkpoints_ ? checkpoints_->wait() : Status::ok();
}

bool Trainer::evaluationDue(uint64_t step) const {
  return evalData_ && (step == options_.steps || (options_.evalEvery > 0 && step % options_.evalEvery == 0));
}

bool Trainer::checkpointDue(uint64_t step) const {
  return checkpoints_ &&
         (step == options_.steps || (options_.checkpointEvery > 0 && step % options_.checkpointEvery == 0));
}

/// The first step of a run, which loads kernels and touches memory, is traced only when there is no other.
uint64_t Trainer::firstTracedStep() const {
  return std::min(std::max(options_.stepsDone + 2, options_.traceFrom), options_.steps);
}

uint64_t Trainer::lastTracedStep() const { return std::min(firstTracedStep() + kTracedSteps - 1, options_.steps); }

bool Trainer::pausesAfter(uint64_t step) const {
  bool traceEnds = !options_.tracePath.empty() && step == lastTracedStep();
  return step == options_.steps || evaluationDue(step) || checkpointDue(step) || traceEnds || stop_.requested();
}

Status Trainer::startStep() {
  uint64_t step = stepsDone_ + pending_.size() + 1;
  if (pending_.empty())
    mark_ = Clock::now();
  double waitedBefore = data_.waitSeconds();
  Result<const Batch *> batch = data_.next();
  if (!batch.isOk())
    return batch.status();
  double waited = data_.waitSeconds() - waitedBefore;
  if (!options_.tracePath.empty() && step == firstTracedStep())
    TAPEOUT_RETURN_IF_ERROR(executor_.startRecording());
  TAPEOUT_RETURN_IF_ERROR(fillInputs(executor_, *step_, **batch));
  TAPEOUT_RETURN_IF_ERROR(executor_.run(*step_));
  pending_.push_back({step, waited});
  return Status::ok();
}

/// Waits for the oldest step that is not done.
Status Trainer::finishStep(StepMetrics &metrics) {
  auto ago = static_cast<unsigned>(pending_.size() - 1);
  TAPEOUT_RETURN_IF_ERROR(executor_.wait(ago));
  const PendingStep done = pending_.front();
  pending_.pop_front();
  stepsDone_ = done.step;

  Clock::time_point now = Clock::now();
  double seconds = std::max(std::chrono::duration<double>(now - mark_).count(), 1e-9);
  mark_ = now;
  metrics.step = stepsDone_;
  metrics.totalSteps = options_.steps;
  metrics.loss = *readOutput(executor_, *step_, "loss", ago);
  metrics.gradNorm = readOutput(executor_, *step_, "grad_norm", ago).value_or(0);
  metrics.lr = readOutput(executor_, *step_, "lr", ago).value_or(0);
  metrics.lossScale = readOutput(executor_, *step_, "loss_scale", ago);
  metrics.skippedSteps = static_cast<uint64_t>(readOutput(executor_, *step_, "skipped_steps", ago).value_or(0));
  bool skipped = readOutput(executor_, *step_, "skipped", ago).value_or(0) != 0;
  skippedInARow_ = skipped ? skippedInARow_ + 1 : 0;
  metrics.throughput = unitsPerStep(executor_.plan().model()) / seconds;
  metrics.unit = readsTokens(executor_.plan().model().task()) ? "tokens" : "samples";
  metrics.dataWaitShare = std::clamp(done.waitedForData / seconds, 0.0, 1.0);
  metrics.memoryBytes = executor_.memoryBytes();
  return Status::ok();
}

// A gradient norm that is not finite trains as wrongly as such a loss, only more quietly.
// A skipped step changes nothing, so there it is harmless.
Status Trainer::checkFinite(const StepMetrics &metrics) {
  bool finiteLoss = std::isfinite(metrics.loss);
  bool skipped = skippedInARow_ > 0 && skippedInARow_ < kMostSkipped;
  if (skipped || (finiteLoss && std::isfinite(metrics.gradNorm)))
    return Status::ok();
  metrics_.endLine();
  if (skippedInARow_ > 0)
    return Status::error(ExitCode::NonFiniteLoss,
                         fmt::format("the last {} steps were skipped because gradients were not finite, down to a loss scale of "
                                     "{:g}; compile with --precision bf16, or with --keep-fp32 for the layer that overflows",
                                     skippedInARow_, metrics.lossScale.value_or(0)));
  std::string before = lastLoss_ ? fmt::format("step {} had {:.4f}", stepsDone_ - 1, *lastLoss_)
                                 : std::string("it was the first step of this run");
  return Status::error(ExitCode::NonFiniteLoss,
                       fmt::format("the {} of step {} is not finite ({}); lower --lr, raise --warmup or set --clip{}",
                                   finiteLoss ? "gradient norm" : "loss", stepsDone_, before,
                                   checkpoints_ ? ", and go on from the last checkpoint with --resume" : ""));
}

Status Trainer::evaluateIfDue(StepMetrics &metrics) {
  if (!evaluationDue(stepsDone_))
    return Status::ok();
  Result<std::optional<double>> loss = evaluate(executor_, *evalData_, stop_);
  if (!loss.isOk())
    return loss.status();
  metrics.evalLoss = *loss;
  return Status::ok();
}

Status Trainer::report(StepMetrics &metrics) {
  TAPEOUT_RETURN_IF_ERROR(evaluateIfDue(metrics));
  TAPEOUT_RETURN_IF_ERROR(metrics_.record(metrics));
  return finishTraceIfDue();
}

Status Trainer::finishTraceIfDue() {
  if (options_.tracePath.empty() || stepsDone_ != lastTracedStep())
    return Status::ok();
  Result<Recording> recording = executor_.finishRecording();
  if (!recording.isOk())
    return recording.status();
  std::erase_if(recording->runs, [&](const RecordedRun &run) { return run.program != step_; }); // evaluations
  TracedSteps steps{firstTracedStep(), std::move(*recording)};
  TAPEOUT_RETURN_IF_ERROR(writeTrace(executor_.plan(), steps, options_.tracePath));
  metrics_.note(traceSummary(steps) + fmt::format("written to {} and {}.txt", options_.tracePath, options_.tracePath));
  return Status::ok();
}

Status Trainer::save() {
  CheckpointContents contents;
  contents.manifest.step = stepsDone_;
  contents.manifest.planHash = executor_.plan().hash();
  contents.manifest.config = options_.config;
  contents.manifest.position = data_.position();
  Result<CheckpointState> state = checkpointState(executor_);
  if (!state.isOk())
    return state.status();
  contents.tensors = state->tensors;
  return checkpoints_->save(contents);
}

Status Trainer::stopped() {
  metrics_.endLine();
  if (!checkpoints_)
    return Status::error(
        ExitCode::StoppedBySignal,
        fmt::format("stopped by {} after step {}; nothing is saved because there is no --checkpoint-dir", stop_.name(),
                    stepsDone_));
  TAPEOUT_RETURN_IF_ERROR(checkpoints_->wait());
  return Status::error(ExitCode::StoppedBySignal,
                       fmt::format("stopped by {} after step {}; the state is saved in '{}', go on with --resume",
                                   stop_.name(), stepsDone_, options_.checkpointDirectory));
}

} // namespace tapeout::rt
