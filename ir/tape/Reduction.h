#pragma once

#include "ir/tape/Tape.h"

#define GET_OP_CLASSES
#include "ir/tape/Reduction.h.inc"

namespace tapeout::tape {
void registerReductionOps(TapeDialect &dialect);
} // namespace tapeout::tape
