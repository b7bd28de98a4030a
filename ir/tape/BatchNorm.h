#pragma once

#include "ir/tape/Tape.h"

#define GET_OP_CLASSES
#include "ir/tape/BatchNorm.h.inc"

namespace tapeout::tape {
void registerBatchNormOps(TapeDialect &dialect);
} // namespace tapeout::tape
