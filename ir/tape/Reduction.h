#pragma once

#include "ir/tape/Tape.h"

#define GET_OP_CLASSES
#include "ir/tape/Reduction.h.inc"

namespace tapeout::tape {
void registerReductionOps(TapeDialect &dialect);

/// Whether each result combines consecutive elements: no kept dimension of more than one index lies behind the reduced ones.
bool reducesRows(ReduceOp op);

/// A reduction of bands of consecutive rows: [bands, rows, columns] to [bands, columns]. Rows 4 i + k of a band, i = 0, 1, ...,
/// are combined in this order, for each k; then (0 with 1) with (2 with 3).
struct Bands {
  int64_t bands, rows, columns;
  bool operator==(const Bands &) const = default;
};
inline constexpr int64_t kBandSlots = 4;

/// Bands enough to keep a large device busy, of rows that one block of threads holds four of; of other reductions, none.
std::optional<Bands> bandsOf(ReduceOp op);
/// A sum of f32 parts, [parts, columns] to [columns], as those that long columns are cut into: what one kernel computes for many
/// tensors on targets that cut them.
bool sumsParts(ReduceOp op);
} // namespace tapeout::tape
