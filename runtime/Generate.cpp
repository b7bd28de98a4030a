#include "runtime/Generate.h"

#include "runtime/base/Philox.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstring>
#include <numeric>

namespace tapeout::rt {
namespace {

constexpr int64_t kByteVocabulary = 256;
/// Keeps these random numbers apart from those of parameters, whose streams are small.
constexpr uint64_t kGenerateStream = 0x67656e6572617465; // "generate"

/// Integers into a slot of i32 or i64; what follows them becomes 0.
Status writeIntegers(Executor &executor, uint32_t slot, std::span<const int64_t> values) {
  return executor.write(slot, [&](std::span<uint8_t> bytes) {
    std::fill(bytes.begin(), bytes.end(), 0);
    size_t size = elementSize(elementType(executor.plan().slot(slot)));
    for (size_t i = 0; i < values.size(); ++i)
      std::memcpy(bytes.data() + i * size, &values[i], size); // little endian
  });
}

bool isInteger(const plan::Slot &slot) {
  return elementType(slot) == ElementType::I32 || elementType(slot) == ElementType::I64;
}

/// The predict program with its slots, checked.
struct Predictor {
  const plan::Program *program = nullptr;
  uint32_t tokens = 0, logits = 0;
  const plan::NamedSlot *position = nullptr; // may be absent
  bool oneRow = false;                       // logits of the position alone, not of all positions

  static Result<Predictor> of(const Plan &plan);
};

Result<Predictor> Predictor::of(const Plan &plan) {
  const plan::Model &model = plan.model();
  Predictor result;
  result.program = plan.program("predict");
  if (model.task() != plan::Task::LanguageModel || !result.program)
    return Status::error(ExitCode::BadConfig,
                         "--generate: this executable holds no language model that predicts tokens");
  auto bad = [] {
    return Status::error(ExitCode::BadData, "plan: the slots of program 'predict' do not fit the model; the file is "
                                            "damaged: compile the model again");
  };
  result.position = findNamed(result.program->inputs(), "position");
  const plan::NamedSlot *tokens = findNamed(result.program->inputs(), "tokens");
  if (!tokens || orEmpty(result.program->inputs()).size() != (result.position ? 2u : 1u))
    return bad();
  result.tokens = tokens->slot();
  result.logits = findNamed(result.program->outputs(), "logits")->slot();
  uint64_t vocabulary = model.vocabulary(), context = model.context();
  uint64_t logits = elementCount(plan.slot(result.logits));
  result.oneRow = logits == vocabulary;
  bool allRows = logits / vocabulary == context && logits % vocabulary == 0;
  bool fits = isInteger(plan.slot(result.tokens)) && elementCount(plan.slot(result.tokens)) == context &&
              elementType(plan.slot(result.logits)) == ElementType::F32 && (result.oneRow || allRows) &&
              (!result.position || isInteger(plan.slot(result.position->slot())));
  if (!fits)
    return bad();
  return result;
}

} // namespace

Result<std::vector<int64_t>> parsePrompt(const plan::Model &model, const std::string &prompt) {
  std::vector<int64_t> tokens;
  if (prompt.empty())
    return Status::error(ExitCode::BadConfig, "--generate: the prompt is empty; give at least one token");
  if (model.vocabulary() == kByteVocabulary) {
    for (unsigned char byte : prompt)
      tokens.push_back(byte);
    return tokens;
  }
  const char *end = prompt.data() + prompt.size();
  for (const char *at = prompt.data();; ++at) {
    int64_t token = 0;
    auto [next, error] = std::from_chars(at, end, token);
    bool separated = next == end || *next == ',';
    if (error != std::errc() || !separated || token < 0 || token >= model.vocabulary())
      return Status::error(ExitCode::BadConfig,
                           fmt::format("--generate: the prompt of this model is token ids from 0 to {}, separated by "
                                       "commas, such as 12,5,7",
                                       model.vocabulary() - 1));
    tokens.push_back(token);
    at = next;
    if (at == end)
      return tokens;
  }
}

std::string tokenText(const plan::Model &model, int64_t token) {
  if (model.vocabulary() == kByteVocabulary)
    return std::string(1, static_cast<char>(token));
  return fmt::format("{},", token);
}

int64_t sampleToken(std::span<const float> logits, double temperature, int64_t topK, double random) {
  int64_t count = static_cast<int64_t>(logits.size());
  if (temperature == 0)
    return std::max_element(logits.begin(), logits.end()) - logits.begin();
  std::vector<int64_t> order(count);
  std::iota(order.begin(), order.end(), 0);
  auto likelier = [&](int64_t a, int64_t b) { return logits[a] != logits[b] ? logits[a] > logits[b] : a < b; };
  if (topK > 0 && topK < count) {
    std::nth_element(order.begin(), order.begin() + topK, order.end(), likelier);
    order.resize(topK);
    std::sort(order.begin(), order.end());
  }
  double largest = logits[*std::min_element(order.begin(), order.end(), likelier)];
  std::vector<double> weights;
  for (int64_t token : order)
    weights.push_back(std::exp((logits[token] - largest) / temperature));
  double target = random * std::accumulate(weights.begin(), weights.end(), 0.0);
  for (size_t i = 0; i < order.size(); ++i) {
    target -= weights[i];
    if (target < 0)
      return order[i];
  }
  return order.back(); // rounding only: random is below 1
}

Status generate(Executor &executor, const GenerateOptions &options, StopSignal &stop, FunctionRef<void(int64_t)> emit) {
  const plan::Model &model = executor.plan().model();
  Result<Predictor> predictor = Predictor::of(executor.plan());
  if (!predictor.isOk())
    return predictor.status();
  Result<std::vector<int64_t>> tokens = parsePrompt(model, options.prompt);
  if (!tokens.isOk())
    return tokens.status();

  RandomStream stream{options.seed, kGenerateStream};
  int64_t context = model.context();
  for (uint64_t generated = 0; generated < options.tokens && !stop.requested(); ++generated) {
    int64_t length = std::min<int64_t>(context, tokens->size());
    int64_t first = tokens->size() - length;
    const int64_t position = length - 1;
    TAPEOUT_RETURN_IF_ERROR(writeIntegers(executor, predictor->tokens, std::span(*tokens).subspan(first)));
    if (predictor->position)
      TAPEOUT_RETURN_IF_ERROR(writeIntegers(executor, predictor->position->slot(), {&position, 1}));
    TAPEOUT_RETURN_IF_ERROR(executor.run(*predictor->program));

    Result<SlotBytes> output = executor.read(predictor->logits);
    if (!output.isOk())
      return output.status();
    const auto *rows = reinterpret_cast<const float *>(output->get().data());
    uint64_t row = predictor->oneRow ? 0 : position;
    std::span<const float> logits(rows + row * model.vocabulary(), model.vocabulary());
    if (!std::all_of(logits.begin(), logits.end(), [](float logit) { return std::isfinite(logit); }))
      return Status::error(
          ExitCode::NonFiniteLoss,
          fmt::format("the logits for token {} are not finite; generate from an earlier checkpoint", tokens->size()));
    int64_t token = sampleToken(logits, options.temperature, options.topK, stream.uniform(tokens->size()));
    tokens->push_back(token);
    emit(token);
  }
  return Status::ok();
}

} // namespace tapeout::rt
