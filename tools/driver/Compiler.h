// The whole compile as a library: model graph -> passes -> kernels -> plan -> training executable.
#pragma once

#include "frontend/Graph.h"
#include "passes/Pipelines.h"
#include "runtime/base/Hyperparameters.h"
#include "runtime/base/Status.h"
#include "tools/driver/TargetChoice.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/IR/OwningOpRef.h"

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace tapeout::driver {

struct CompileOptions {
  TargetChoice target;
  int64_t batch = 0; ///< samples per step; 0: defaultBatch()
  TrainingOptions training;
  std::vector<std::string> freeze;            ///< name patterns of parameters that are not trained
  std::map<Hyperparameter, double> overrides; ///< of the defaults below
  unsigned threads = 0;                       ///< compile threads; 0: one per processor
  std::string saveIr;                         ///< folder for the IR after every pass; empty: none
  std::string describe;                       ///< the options as the user gave them, kept in the plan
};

int64_t defaultBatch(frontend::Task task);

/// Every hyperparameter an executable starts with: those of the optimizer in PyTorch, plus the overrides.
std::map<Hyperparameter, double> hyperparameterDefaults(const CompileOptions &options);

/// A module on its way through the pipeline. Errors carry the compiler's diagnostics as their message.
class Compilation {
public:
  Compilation(const frontend::Graph &graph, const CompileOptions &options);
  ~Compilation();

  Status import();
  /// Runs the steps up to and including the first one of this name; all of them if it is empty.
  Status runPasses(const std::string &lastPass = "");
  mlir::ModuleOp module() { return *module_; }

  /// Generates the kernels and writes the executable. Needs the whole pipeline to have run.
  /// `runner` is the tapeout-runner binary; `modelFile` is where relative weights files are found.
  Status writeExecutable(const std::string &runner, const std::string &modelFile, const std::string &output);
  /// After writeExecutable: what made the machine code of a GPU: "ptxas", "nvJitLink" or "none"; empty for cpu.
  const std::string &assembler() const { return assembler_; }

private:
  /// Runs `body` and turns the diagnostics of a failure into a Status.
  Status collect(const std::function<mlir::LogicalResult()> &body);

  const frontend::Graph &graph_;
  CompileOptions options_;
  std::unique_ptr<mlir::MLIRContext> context_;
  mlir::OwningOpRef<mlir::ModuleOp> module_;
  std::string assembler_;
};

} // namespace tapeout::driver
