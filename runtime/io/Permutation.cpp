#include "runtime/io/Permutation.h"

#include "runtime/base/Philox.h"

#include <cmath>

namespace tapeout::rt {

// Counter word 3 separates the uses of the loader's random numbers; Feistel rounds are numbered from 0.
constexpr uint32_t kEpochRandomTag = 0x80000000u;
constexpr uint32_t kFeistelRounds = 10;

/// A random number below 2^63.
static uint64_t keyedRandom(uint64_t seed, uint64_t epoch, uint32_t value, uint32_t tag) {
  auto words =
      philox4x32({value, static_cast<uint32_t>(epoch), static_cast<uint32_t>(epoch >> 32), tag}, philoxKey(seed));
  return (uint64_t{words[1]} << 31) | (words[0] >> 1);
}

uint64_t epochRandom(uint64_t seed, uint64_t epoch) { return keyedRandom(seed, epoch, 0, kEpochRandomTag); }

static uint64_t ceilingSquareRoot(uint64_t value) {
  auto root = static_cast<uint64_t>(std::sqrt(static_cast<double>(value)));
  while (root * root < value)
    ++root;
  return root;
}

Permutation::Permutation(uint64_t count, uint64_t seed, uint64_t epoch)
    : count_(count), rows_(ceilingSquareRoot(count)), columns_((count + rows_ - 1) / rows_), seed_(seed),
      epoch_(epoch) {}

uint64_t Permutation::operator()(uint64_t position) const {
  uint64_t cell = position;
  do {
    uint64_t row = cell / columns_;
    uint64_t column = cell % columns_;
    for (uint32_t round = 0; round < kFeistelRounds; round += 2) {
      row = (row + keyedRandom(seed_, epoch_, static_cast<uint32_t>(column), round) % rows_) % rows_;
      column = (column + keyedRandom(seed_, epoch_, static_cast<uint32_t>(row), round + 1) % columns_) % columns_;
    }
    cell = row * columns_ + column;
  } while (cell >= count_);
  return cell;
}

} // namespace tapeout::rt
