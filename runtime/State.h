// The training state: the contents of the persistent memory, from the plan's recipes, weight files and checkpoints.
//
// All functions write only to slots of the executor's plan and check names, types and shapes before the first write.
#pragma once

#include "runtime/Executor.h"
#include "runtime/base/Hyperparameters.h"
#include "runtime/base/Safetensors.h"
#include "runtime/base/Status.h"
#include "runtime/io/Checkpoint.h"

#include <map>
#include <string>
#include <vector>

namespace tapeout::rt {

/// Hyperparameters by their name in runtime/base/Hyperparameters.h.
using HyperparameterValues = std::map<std::string, double>;

/// BadConfig for an unknown name or a value outside its range; `origin` ("--lr", a file) is part of the message.
Status checkHyperparameter(const std::string &name, double value, const std::string &origin);
/// The plan's defaults; hyperparameters without one are absent.
HyperparameterValues defaultHyperparameters(const Plan &plan);
/// Writes checked values to the config slot; what they do not name becomes 0.
Status writeConfig(Executor &executor, const HyperparameterValues &values);

/// Parameters by their recipes, constants by the plan, everything else zero. `weights` is the executable's Weights
/// section, possibly empty. Errors: BadData when an embedded parameter is missing there or has another shape.
Status initializeState(Executor &executor, std::span<const uint8_t> weights, uint64_t seed);

/// Reads all parameters from a safetensors file of f32, f64, bf16 or f16 tensors, converting types. One message lists
/// everything that is missing, has another shape or type, or is unknown (BadData).
Status importParameters(Executor &executor, const std::string &path);
/// Writes all parameters to a safetensors file, in their own types.
Status exportParameters(Executor &executor, const std::string &path);

/// The tensors of a checkpoint, in plan order; their bytes lie in `slots`.
struct CheckpointState {
  std::vector<CheckpointTensor> tensors;
  std::vector<SlotBytes> slots;
};
Result<CheckpointState> checkpointState(Executor &executor);
/// Writes a checkpoint's tensors back. Errors as importParameters, with exact types.
Status restoreState(Executor &executor, const LoadedCheckpoint &checkpoint);

/// The named output of one number that the run of `program` which is `ago` runs before the last one has left; that run is
/// over (Executor::wait). Nothing when the program has no such output.
std::optional<double> readOutput(const Executor &executor, const plan::Program &program, std::string_view name,
                                 unsigned ago = 0);

} // namespace tapeout::rt
