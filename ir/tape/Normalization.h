#pragma once

#include "ir/tape/Tape.h"

#define GET_OP_CLASSES
#include "ir/tape/Normalization.h.inc"

namespace tapeout::tape {
void registerNormalizationOps(TapeDialect &dialect);
} // namespace tapeout::tape
