// All passes; Passes.td documents each. buildPipeline in Pipelines.h puts them in order.
#pragma once

#include "mlir/Pass/Pass.h"

#include <memory>
#include <string>

namespace mlir {
class ModuleOp;
}

namespace tapeout {

#define GEN_PASS_DECL
#include "passes/Passes.h.inc"

#define GEN_PASS_REGISTRATION
#include "passes/Passes.h.inc"

} // namespace tapeout
