#pragma once

#include "ir/tape/Tape.h"

#define GET_OP_CLASSES
#include "ir/tape/Reduction.h.inc"

namespace tapeout::tape {
void registerReductionOps(TapeDialect &dialect);

/// Whether each result combines consecutive elements: no kept dimension of more than one index lies behind the reduced ones.
bool reducesRows(ReduceOp op);
} // namespace tapeout::tape
