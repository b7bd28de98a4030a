#pragma once

#include "ir/tape/Tape.h"

#define GET_OP_CLASSES
#include "ir/tape/Loss.h.inc"

namespace tapeout::tape {
void registerLossOps(TapeDialect &dialect);
} // namespace tapeout::tape
