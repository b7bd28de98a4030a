#include "runtime/device/cuda/TuningFile.h"

#include "runtime/base/AtomicFile.h"
#include "runtime/base/Json.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <optional>

namespace tapeout::rt {
namespace {

constexpr int kFormat = 1;
constexpr size_t kMaxFileBytes = size_t(4) << 20;
constexpr size_t kWords = std::size(CublasAlgorithm{}.data), kDigitsPerWord = 16;

std::string toText(const CublasAlgorithm &algorithm) {
  std::string text;
  for (uint64_t word : algorithm.data)
    text += fmt::format("{:016x}", word);
  return text;
}

std::optional<CublasAlgorithm> parseAlgorithm(const nlohmann::json &value) {
  const auto *text = value.get_ptr<const std::string *>();
  if (!text || text->size() != kWords * kDigitsPerWord)
    return std::nullopt;
  CublasAlgorithm algorithm;
  for (size_t i = 0; i < kWords; ++i) {
    const char *begin = text->data() + i * kDigitsPerWord, *end = begin + kDigitsPerWord;
    if (std::from_chars(begin, end, algorithm.data[i], 16).ptr != end)
      return std::nullopt;
  }
  return algorithm;
}

nlohmann::json header(const TuningIdentity &identity) {
  return {{"format", kFormat},
          {"plan_hash", identity.planHash},
          {"device", identity.device},
          {"driver", identity.driverVersion},
          {"library", identity.libraryVersion}};
}

} // namespace

bool operator==(const CublasAlgorithm &a, const CublasAlgorithm &b) { return std::ranges::equal(a.data, b.data); }

TuningChoices readTuningFile(const std::string &path, const TuningIdentity &identity) {
  Result<std::string> text = readFile(path, kMaxFileBytes);
  if (!text.isOk())
    return {};
  Result<nlohmann::json> file = parseJson(*text, path);
  if (!file.isOk() || !file->is_object())
    return {};
  const nlohmann::json expected = header(identity);
  for (const auto &[key, value] : expected.items())
    if (!file->contains(key) || (*file)[key] != value)
      return {};
  TuningChoices choices;
  if (!file->contains("products") || !(*file)["products"].is_object())
    return {};
  for (const auto &[key, value] : (*file)["products"].items()) {
    std::optional<CublasAlgorithm> algorithm = parseAlgorithm(value);
    if (!algorithm)
      return {};
    choices[key] = *algorithm;
  }
  return choices;
}

Status writeTuningFile(const std::string &path, const TuningIdentity &identity, const TuningChoices &choices) {
  nlohmann::json file = header(identity);
  file["products"] = nlohmann::json::object();
  for (const auto &[key, algorithm] : choices)
    file["products"][key] = toText(algorithm);
  return writeFile(path, file.dump(1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n");
}

} // namespace tapeout::rt
