#pragma once

#include "ir/tape/Tape.h"

#define GET_OP_CLASSES
#include "ir/tape/Shape.h.inc"

namespace tapeout::tape {
void registerShapeOps(TapeDialect &dialect);
} // namespace tapeout::tape
