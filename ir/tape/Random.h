#pragma once

#include "ir/tape/Tape.h"

#define GET_OP_CLASSES
#include "ir/tape/Random.h.inc"

namespace tapeout::tape {
void registerRandomOps(TapeDialect &dialect);
} // namespace tapeout::tape
