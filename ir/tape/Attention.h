#pragma once

#include "ir/tape/Tape.h"

#define GET_OP_CLASSES
#include "ir/tape/Attention.h.inc"

namespace tapeout::tape {
void registerAttentionOps(TapeDialect &dialect);

/// Of attention's kernels that are written by hand: the elements of a head, and the tokens that one sum of columns is of.
inline constexpr int64_t kKernelHead = 64, kKernelTile = 64;
} // namespace tapeout::tape
