#pragma once

#include "ir/tape/Tape.h"

#define GET_OP_CLASSES
#include "ir/tape/Convolution.h.inc"

namespace tapeout::tape {
void registerConvolutionOps(TapeDialect &dialect);
} // namespace tapeout::tape
