// The safetensors file beside a model file, from which External parameters start.
#pragma once

#include "frontend/Graph.h"
#include "runtime/base/Safetensors.h"
#include "runtime/base/Status.h"

#include <string>

namespace tapeout::frontend {

struct WeightsFile {
  MappedFile file; ///< holds the bytes of `tensors`
  Safetensors tensors;
};

/// Opens graph.weightsFile, which must not be empty, in the folder of `modelPath` and checks that it has the tensor of
/// every External parameter with its type and shape. The name comes from an untrusted file: no path leads out of that
/// folder, not even by a symbolic link. Errors: MissingInput, BadData.
Result<WeightsFile> openWeights(const Graph &graph, const std::string &modelPath);

} // namespace tapeout::frontend
