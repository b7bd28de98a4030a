// Plans of single computations, for programs that run on a machine with a GPU.
#pragma once

#include "passes/Pipelines.h"
#include "tools/driver/TargetChoice.h"

#include "mlir/Support/LogicalResult.h"

#include <string>

namespace tapeout {

/// Compiles a module of functions whose arguments have the role `input`, from the stage "fuse" of the pipeline on, and writes
/// its plan as a package. Each function becomes a program. Errors are printed.
mlir::LogicalResult writePlanFile(const std::string &path, const std::string &module,
                                  const driver::TargetChoice &target, const TrainingOptions &options);

} // namespace tapeout
