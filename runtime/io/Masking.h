// Which tokens of a sample a masked language model has to guess, and what it sees in their place (Devlin et al. 2018).
//
// Each position is chosen with probability 15%, independently of the others. Of the chosen ones 80% show the mask token,
// 10% a token drawn from the whole vocabulary and 10% themselves; their label is the token, all other labels are to be
// ignored. The choice is a function of (seed, epoch, sample, position) only: no batch size, thread or rank changes it. An
// evaluation has one seed and one epoch, so that all its passes, of all runs, ask for the same tokens.
#pragma once

#include "runtime/base/Philox.h"

#include <cstdint>

namespace tapeout::rt {

class Masking {
public:
  static constexpr double kChosen = 0.15, kHidden = 0.8, kReplaced = 0.1;

  Masking(uint64_t seed, uint32_t vocabulary, uint32_t maskToken)
      : seed_(seed), vocabulary_(vocabulary), maskToken_(maskToken) {}

  struct Position {
    uint32_t shown; ///< the token that the model sees
    bool isChosen;
  };
  Position operator()(uint64_t epoch, uint64_t sample, uint32_t position, uint32_t token) const {
    auto words = philox4x32({position, static_cast<uint32_t>(sample), static_cast<uint32_t>(epoch),
                             kTag | static_cast<uint32_t>(sample >> 32)},
                            philoxKey(seed_));
    if (words[0] >= kChosen * 0x1p32)
      return {token, false};
    if (words[1] < kHidden * 0x1p32)
      return {maskToken_, true};
    bool isReplaced = words[1] < (kHidden + kReplaced) * 0x1p32;
    return {isReplaced ? static_cast<uint32_t>((uint64_t{words[2]} * vocabulary_) >> 32) : token, true};
  }

private:
  static constexpr uint32_t kTag = 0x40000000; ///< apart from the loader's other random numbers (Permutation.cpp)

  uint64_t seed_;
  uint32_t vocabulary_, maskToken_;
};

} // namespace tapeout::rt
