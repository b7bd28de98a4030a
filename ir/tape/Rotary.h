#pragma once

#include "ir/tape/Tape.h"

#define GET_OP_CLASSES
#include "ir/tape/Rotary.h.inc"

namespace tapeout::tape {
void registerRotaryOps(TapeDialect &dialect);
} // namespace tapeout::tape
