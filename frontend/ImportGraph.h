// From a model graph to tape IR.
#pragma once

#include "frontend/Graph.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"

#include <string>
#include <vector>

namespace tapeout::frontend {

struct ImportOptions {
  int64_t batch = 1;               ///< what the symbolic extent becomes, > 0
  std::vector<std::string> freeze; ///< name patterns (* and ?) of parameters that are not trained
};

/// A module with @forward(inputs, parameters) -> prediction and, for language models, @predict: the same for one
/// sample. Nodes become ops by name; types are inferred and checked by the ops, so an unknown op or a wrong shape is a
/// diagnostic at the node's layer. Needs the tape and func dialects in `context`.
mlir::OwningOpRef<mlir::ModuleOp> importGraph(mlir::MLIRContext &context, const Graph &graph,
                                              const ImportOptions &options);

} // namespace tapeout::frontend
