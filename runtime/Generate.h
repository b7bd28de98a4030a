// --generate: text from a trained language model, one token at a time, with the predict program.
//
// The token at position p depends on the seed, p and the tokens before it only. The model sees the last `context`
// tokens.
#pragma once

#include "runtime/Executor.h"
#include "runtime/StopSignal.h"
#include "runtime/base/Status.h"
#include "runtime/device/cpu/FunctionRef.h"

#include <cstdint>
#include <string>
#include <vector>

namespace tapeout::rt {

struct GenerateOptions {
  std::string prompt;     ///< text when the vocabulary is 256 (bytes), else token ids separated by commas
  uint64_t tokens = 100;  ///< to generate
  double temperature = 1; ///< > 0; 0 takes the most likely token
  int64_t topK = 0;       ///< choose among the k most likely tokens; 0: among all
  uint64_t seed = 0;
};

/// Errors: BadConfig for a prompt that is empty or has ids outside the vocabulary.
Result<std::vector<int64_t>> parsePrompt(const plan::Model &model, const std::string &prompt);
/// A byte when the vocabulary is 256, else the id and a comma.
std::string tokenText(const plan::Model &model, int64_t token);

/// Calls `emit` for each new token. Errors: BadConfig for a model that cannot generate, NonFiniteLoss for logits that
/// are not finite.
Status generate(Executor &executor, const GenerateOptions &options, StopSignal &stop, FunctionRef<void(int64_t)> emit);

/// The next token from a row of logits: greedy for temperature 0, else by `random` in [0, 1).
int64_t sampleToken(std::span<const float> logits, double temperature, int64_t topK, double random);

} // namespace tapeout::rt
