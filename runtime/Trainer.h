// The training loop: batches in, steps run, numbers out, checkpoints saved, signals obeyed.
//
// A resumed run continues bit for bit as if it had never stopped: the state, the step and the position in the data come
// from the checkpoint, and everything random inside a step is keyed by (seed, step).
//
// Where the executor queues runs, a step's numbers are read while the next step runs, except where something happens
// between the two: an evaluation, a checkpoint, a trace, a signal, the end.
#pragma once

#include "runtime/Executor.h"
#include "runtime/State.h"
#include "runtime/StopSignal.h"
#include "runtime/Trace.h"
#include "runtime/io/Checkpoint.h"
#include "runtime/io/DataLoader.h"
#include "runtime/io/Metrics.h"

#include <chrono>
#include <deque>
#include <optional>
#include <string>

namespace tapeout::rt {

struct TrainerOptions {
  uint64_t steps = 0;                   ///< of the whole run, those before a resume included
  uint64_t stepsDone = 0;               ///< by the checkpoint that was restored
  HyperparameterValues config = {};     ///< what the config slot holds, for checkpoints
  std::string checkpointDirectory = {}; ///< empty: no checkpoints
  uint64_t checkpointEvery = 0;         ///< 0: only at the end
  int keep = 3;                         ///< checkpoints to keep
  uint64_t evalEvery = 0;               ///< 0: only at the end
  std::string tracePath = {};           ///< empty: no trace
  uint64_t traceFrom = 0;               ///< 0: from the second step of this run; else from this one, if it is still to come
};

class Trainer {
public:
  /// At most.
  static constexpr uint64_t kTracedSteps = 4;
  /// Skipped steps in a row after which no loss scale will help.
  static constexpr uint64_t kMostSkipped = 100;

  /// All references outlive the trainer. `evalData` may be null.
  Trainer(Executor &executor, DataLoader &data, DataLoader *evalData, MetricsWriter &metrics, StopSignal &stop,
          TrainerOptions options);

  /// Trains to options.steps. Errors: NonFiniteLoss (3), StoppedBySignal (75, after saving), and those of the parts.
  Status run();

  uint64_t stepsDone() const { return stepsDone_; }

private:
  struct PendingStep {
    uint64_t step;
    double waitedForData; // seconds
  };

  Status startStep();
  Status finishStep(StepMetrics &metrics);
  bool pausesAfter(uint64_t step) const;
  bool evaluationDue(uint64_t step) const;
  bool checkpointDue(uint64_t step) const;
  uint64_t firstTracedStep() const;
  uint64_t lastTracedStep() const;
  Status checkFinite(const StepMetrics &metrics);
  Status report(StepMetrics &metrics);
  Status evaluateIfDue(StepMetrics &metrics);
  Status finishTraceIfDue();
  Status save();
  Status stopped();

  Executor &executor_;
  DataLoader &data_;
  DataLoader *evalData_;
  MetricsWriter &metrics_;
  StopSignal &stop_;
  const TrainerOptions options_;
  const plan::Program *step_;
  std::optional<AsyncCheckpointer> checkpoints_;
  uint64_t stepsDone_;
  std::deque<PendingStep> pending_; // started, not done
  std::chrono::steady_clock::time_point mark_; // when the step that is running began
  std::optional<double> lastLoss_;
  uint64_t skippedInARow_ = 0;
};

/// What the loader needs to know about a program: task, sizes and inputs. Paths, seed and order are left to the caller.
DataSpec dataSpecOf(const Plan &plan, const plan::Program &program);

/// Writes a batch to the inputs of a program. BadData when one is missing or has another size.
Status fillInputs(Executor &executor, const plan::Program &program, const Batch &batch);

/// The mean loss over one pass of `data`; nothing when `stop` was requested meanwhile. The plan has an evaluate
/// program. Errors: BadData when no label counts, NonFiniteLoss.
Result<std::optional<double>> evaluate(Executor &executor, DataLoader &data, StopSignal &stop);

} // namespace tapeout::rt
