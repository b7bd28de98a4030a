// Serializes a planned module (plan dialect) into the FlatBuffer of runtime/plan.fbs.
#pragma once

#include "codegen/TensorMap.h"

#include "mlir/IR/BuiltinOps.h"

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace tapeout::codegen {

/// GpuKernel of runtime/plan.fbs.
struct GpuLaunch {
  uint32_t module, blocks, threads, sharedBytes;
  bool argumentTable;
  std::vector<TensorMap> tensorMaps = {};
};

/// What a plan says about a kernel, in the target's units.
struct KernelRecord {
  std::string symbol;
  uint64_t units = 0;
  uint64_t grain = 1;
  std::optional<GpuLaunch> gpu = {}; ///< target cuda
};

/// KernelModule of runtime/plan.fbs.
struct ModuleRecord {
  std::string ptx;
  std::vector<std::pair<uint32_t, std::string>> cubins; ///< compute capability (90: sm_90) and ELF file
};

/// What the plan carries besides the IR.
struct PlanInfo {
  std::string modelName;
  uint8_t task = 0; ///< Task of runtime/plan.fbs
  int64_t batch = 1, context = 0, vocabulary = 0, ignoreIndex = -100, maskToken = -1;
  std::string target;
  std::string options;   ///< the compile options, as text
  std::string optimizer; ///< adamw, ...
  std::vector<std::pair<std::string, double>> defaults; ///< hyperparameters by name
  std::vector<ModuleRecord> modules; ///< cuda
  uint64_t workspaceBytes = 0;       ///< cuda: for library calls
};

/// The bytes of the plan. `kernels` has one record for every plan.kernel of the module.
/// Errors (a failure) are diagnostics: a slot without offset, a kernel without record.
mlir::FailureOr<std::string> writePlan(mlir::ModuleOp module, const std::vector<KernelRecord> &kernels, const PlanInfo &info);

} // namespace tapeout::codegen
