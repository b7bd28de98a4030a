#pragma once

#include "ir/tape/Tape.h"

#define GET_OP_CLASSES
#include "ir/tape/Pooling.h.inc"

namespace tapeout::tape {
void registerPoolingOps(TapeDialect &dialect);
} // namespace tapeout::tape
