// Plans of single computations, for programs that run on a machine with a GPU.
#pragma once

#include "passes/Pipelines.h"
#include "tools/driver/TargetChoice.h"

#include "mlir/Support/LogicalResult.h"

#include <cstdio>
#include <string>
#include <vector>

namespace tapeout {

/// Compiles a module of functions whose arguments have the role `input`, from the stage "fuse" of the pipeline on, and writes
/// its plan as a package. Each function becomes a program. Errors are printed.
mlir::LogicalResult writePlanFile(const std::string &path, const std::string &module,
                                  const driver::TargetChoice &target, const TrainingOptions &options);

/// The main function of a program `NAME FOLDER [TARGET]`, cuda:sm_90 by default, that writes a plan for Hopper GPUs of each case
/// into the folder. `Case` has a fileName().
template <typename Case, typename ModuleOf>
int writePlans(int count, char **arguments, const std::vector<Case> &cases, ModuleOf moduleOf) {
  auto target = driver::parseTarget(count == 3 ? arguments[2] : "cuda:sm_90");
  if ((count != 2 && count != 3) || !target.isOk()) {
    std::fprintf(stderr, "usage: %s FOLDER [TARGET]\n", arguments[0]);
    return 2;
  }
  TrainingOptions options;
  options.hopper = true;
  for (const Case &c : cases)
    if (failed(
            writePlanFile(std::string(arguments[1]) + "/" + c.fileName(), moduleOf(c, target->name), *target, options)))
      return 1;
  return 0;
}

} // namespace tapeout
