#pragma once

#include "ir/tape/Tape.h"

#define GET_OP_CLASSES
#include "ir/tape/Embedding.h.inc"

namespace tapeout::tape {
void registerEmbeddingOps(TapeDialect &dialect);
} // namespace tapeout::tape
