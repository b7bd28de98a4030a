#pragma once

#include "ir/tape/Tape.h"

#define GET_OP_CLASSES
#include "ir/tape/Attention.h.inc"

namespace tapeout::tape {
void registerAttentionOps(TapeDialect &dialect);
} // namespace tapeout::tape
