#pragma once

#include "ir/tape/Tape.h"

#include "mlir/Interfaces/ControlFlowInterfaces.h"

#define GET_OP_CLASSES
#include "ir/tape/Fusion.h.inc"

namespace tapeout::tape {
void registerFusionOps(TapeDialect &dialect);
} // namespace tapeout::tape
