#pragma once

#include "ir/tape/Tape.h"

#define GET_OP_CLASSES
#include "ir/tape/Elementwise.h.inc"

namespace tapeout::tape {
void registerElementwiseOps(TapeDialect &dialect);
} // namespace tapeout::tape
