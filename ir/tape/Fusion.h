#pragma once

#include "ir/tape/Tape.h"

#include "mlir/Interfaces/ControlFlowInterfaces.h"

#define GET_OP_CLASSES
#include "ir/tape/Fusion.h.inc"

namespace tapeout::tape {
class DotGeneralOp;

/// The product that a group begins with: a library call whose pieces the rest of the group takes up. Null if there is
/// none.
DotGeneralOp productOf(FusionOp fusion);

void registerFusionOps(TapeDialect &dialect);
} // namespace tapeout::tape
