#pragma once

#include "ir/tape/Tape.h"

#define GET_OP_CLASSES
#include "ir/tape/Optimizer.h.inc"

namespace tapeout::tape {
void registerOptimizerOps(TapeDialect &dialect);
} // namespace tapeout::tape
