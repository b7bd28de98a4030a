// A random order of [0, count) that takes no memory: a keyed bijection, so that any entry is found in O(1).
//
// A Feistel network on a grid of rows x columns >= count cells, whose round function is Philox, alternately rotates the
// row by a function of the column and the column by a function of the row. Values that land outside [0, count) are sent
// through again ("cycle walking", Black and Rogaway 2002); the grid has fewer than 2 sqrt(count) + 1 such cells.
#pragma once

#include <cstdint>

namespace tapeout::rt {

class Permutation {
public:
  /// `count` in [1, 2^62]. The order depends on the three arguments only.
  Permutation(uint64_t count, uint64_t seed, uint64_t epoch);

  /// The `position`-th entry of the order; position < count.
  uint64_t operator()(uint64_t position) const;

private:
  uint64_t count_, rows_, columns_, seed_, epoch_;
};

/// A random number that depends on (seed, epoch) only and is independent of the Permutation of the same key.
uint64_t epochRandom(uint64_t seed, uint64_t epoch);

} // namespace tapeout::rt
