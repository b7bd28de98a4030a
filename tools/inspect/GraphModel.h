// From IR to the plain graph of a picture.
#pragma once

#include "runtime/base/Status.h"
#include "tools/inspect/Graph.h"

#include "mlir/IR/BuiltinOps.h"

#include <string>

namespace tapeout::inspect {

/// Every op of a func.func, or every instruction of a plan.program, as a node; nothing is left out or merged yet.
/// An empty name means @step, or @forward before there is a step. Errors: Usage, naming the functions there are.
Result<Graph> buildGraph(mlir::ModuleOp module, const std::string &function = "");

} // namespace tapeout::inspect
