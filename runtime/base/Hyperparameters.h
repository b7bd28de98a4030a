// The config slot: every hyperparameter that may change from run to run without recompiling.
//
// One float64 vector on the device, read by `tape.hyperparameter` inside the step. float64, so that 1 - beta2 and the
// seed (exact up to 2^53) mean what PyTorch's double-precision Python scalars mean.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace tapeout {

enum class Hyperparameter : uint32_t {
  LearningRate,         ///< peak learning rate
  MinLearningRateRatio, ///< final learning rate / peak, for the linear and cosine schedules
  Schedule,             ///< a ScheduleKind
  WarmupSteps,          ///< linear warm-up from 0 over this many steps
  TotalSteps,           ///< where the schedule ends
  WeightDecay,
  Beta1,
  Beta2,
  Epsilon,
  Momentum,
  ClipNorm, ///< global-norm bound; 0 switches clipping off
  Seed,     ///< integer below 2^53
  Count_,
};

enum class ScheduleKind : uint32_t { Constant = 0, Linear = 1, Cosine = 2 };

constexpr size_t kHyperparameterCount = static_cast<size_t>(Hyperparameter::Count_);
/// Length of the config slot: spare entries keep old executables readable by new tools.
constexpr size_t kConfigSlotLength = 32;

constexpr std::array<std::string_view, kHyperparameterCount> kHyperparameterNames = {
    "lr",    "min_lr_ratio", "schedule", "warmup_steps", "total_steps", "weight_decay",
    "beta1", "beta2",        "epsilon",  "momentum",     "clip",        "seed"};

} // namespace tapeout
