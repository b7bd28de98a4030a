// The order of all passes, as one list of named stages. A stage ends in its own verifier.
#pragma once

#include "mlir/Pass/Pass.h"

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace tapeout {

/// What a compile decides before any pass runs.
struct TrainingOptions {
  std::string loss = "cross_entropy"; ///< or mean_squared_error
  int64_t ignoreIndex = -100;
  double labelSmoothing = 0; ///< of cross_entropy, while training; in [0, 1)
  std::string optimizer = "adamw";  ///< adamw, adam, sgd, momentum, nesterov
  std::string precision = "fp32";   ///< bf16, fp16: mixed precision
  std::string lossScale = "none";   ///< or torch, paddle, a number; see insert-loss-scaling
  std::string ampLevel = "O1";      ///< or O2; see insert-amp-casts
  std::vector<std::string> keepFp32 = {}; ///< name patterns of layers that mixed precision leaves in f32
  bool lowPrecisionWindows = false; ///< whether the target's convolutions and poolings take bf16 and f16
  bool hopper = false;              ///< whether every GPU of the target is a Hopper: kernels written for it may be chosen
  int64_t attentionHeadSize = 0;    ///< largest head that the library has attention for; 0: as on any GPU of the target
  bool deterministic = true;        ///< false: the library may add in an order that differs from run to run
  int64_t lossChunks = 0;           ///< that the rows of the logits are computed in; 0: as memory asks for
  bool fusion = true;               ///< false: one kernel per op, and no pass that fuses
  std::vector<std::string> skipped = {}; ///< of optionalPasses
  std::vector<std::string> noDecay = {}; ///< name patterns of parameters without weight decay
};

struct PipelineStep {
  llvm::StringRef stage;
  std::unique_ptr<mlir::Pass> pass;

  /// The pass's argument without its prefix, as users name it: "build-backward".
  llvm::StringRef name() const {
    llvm::StringRef argument = pass->getArgument();
    argument.consume_front("tape-");
    return argument;
  }
};

/// Passes that a plan is right without, slower, by the name users give them.
inline constexpr const char *optionalPasses[] = {"elide-transposes", "select-product-kernels", "select-attention-kernels", "select-library-attention",
                                                "recompute-from-products", "fuse-epilogues", "fuse-multi-tensor"};

/// All steps from an imported module to a verified plan.
std::vector<PipelineStep> buildPipeline(const TrainingOptions &options);

/// Registers every pass with the global registry, for tapeout-opt.
void registerPassesAndPipelines();

} // namespace tapeout
