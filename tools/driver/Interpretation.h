// Training by the reference interpreter: the same step as an executable's, run directly on tape IR, without kernels or plan.
#pragma once

#include "codegen/reference/Interpreter.h"
#include "tools/driver/Compiler.h"

#include <map>
#include <memory>
#include <string>

namespace tapeout::driver {

/// Named tensors: inputs of a step, gradients, parameters.
using NamedTensors = std::map<std::string, codegen::reference::Tensor>;

class Interpretation {
public:
  /// Compiles `graph` up to the complete training step and initialises parameters by their recipes.
  static Result<std::unique_ptr<Interpretation>> create(const frontend::Graph &graph, const CompileOptions &options,
                                                        codegen::reference::Precision precision);
  ~Interpretation();

  /// Replaces all parameters by the tensors of a safetensors file; names and shapes must match.
  Status importParameters(const std::string &path);
  Status exportParameters(const std::string &path) const;

  /// One training step on `inputs` ("tokens", "labels"...). Returns the metrics: loss, grad_norm, lr, count.
  Result<std::map<std::string, double>> step(const NamedTensors &inputs);
  /// A parameter or another part of the state, by name.
  const codegen::reference::Tensor &tensor(const std::string &name) const;
  /// Gradients of the loss before clipping, by parameter name, without mixed precision; changes nothing.
  Result<NamedTensors> gradients(const NamedTensors &inputs);

  /// Names and types of what `inputs` must hold.
  std::map<std::string, mlir::RankedTensorType> inputTypes();

private:
  struct State;
  explicit Interpretation(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

/// Writes tensors as f64 to a safetensors file, in order of their names.
Status writeTensors(const NamedTensors &tensors, const std::string &path);

} // namespace tapeout::driver
