// Imported weights on their way into an executable.
#pragma once

#include "frontend/Graph.h"
#include "runtime/base/Status.h"

#include <string>

namespace tapeout::driver {

/// A temporary safetensors file with every External parameter under the parameter's name; gone with the object.
class TemporaryWeights {
public:
  TemporaryWeights() = default;
  TemporaryWeights(const TemporaryWeights &) = delete;
  TemporaryWeights &operator=(const TemporaryWeights &) = delete;
  ~TemporaryWeights();

  /// Copies the tensors of `graph`'s weights file (found beside `modelFile`) to a file beside `output`.
  Status collect(const frontend::Graph &graph, const std::string &modelFile, const std::string &output);
  /// Empty when the model imports no weights.
  const std::string &path() const { return path_; }

private:
  std::string path_;
};

} // namespace tapeout::driver
