#include "runtime/device/cuda/TuningFile.h"

#include "runtime/base/AtomicFile.h"
#include "runtime/base/Json.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <optional>
#include <string_view>

namespace tapeout::rt {
namespace {

constexpr int kFormat = 1;
constexpr std::string_view kSeparate = "separate ";
constexpr size_t kMaxFileBytes = size_t(4) << 20;
constexpr size_t kWords = std::size(CublasAlgorithm{}.data), kDigitsPerWord = 16;

std::string toText(const TuningChoice &choice) {
  std::string text(choice.separate ? kSeparate : "");
  for (uint64_t word : choice.algorithm.data)
    text += fmt::format("{:016x}", word);
  return text;
}

std::optional<TuningChoice> parseChoice(const nlohmann::json &value) {
  const auto *whole = value.get_ptr<const std::string *>();
  if (!whole)
    return std::nullopt;
  std::string_view text = *whole;
  TuningChoice choice{.algorithm = {}, .separate = text.starts_with(kSeparate)};
  if (choice.separate)
    text.remove_prefix(kSeparate.size());
  if (text.size() != kWords * kDigitsPerWord)
    return std::nullopt;
  for (size_t i = 0; i < kWords; ++i) {
    const char *begin = text.data() + i * kDigitsPerWord, *end = begin + kDigitsPerWord;
    if (std::from_chars(begin, end, choice.algorithm.data[i], 16).ptr != end)
      return std::nullopt;
  }
  return choice;
}

nlohmann::json header(const TuningIdentity &identity) {
  return {{"format", kFormat},
          {"plan_hash", identity.planHash},
          {"device", identity.device},
          {"driver", identity.driverVersion},
          {"library", identity.libraryVersion}};
}

} // namespace

bool operator==(const TuningChoice &a, const TuningChoice &b) {
  return std::ranges::equal(a.algorithm.data, b.algorithm.data) && a.separate == b.separate;
}

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
    std::optional<TuningChoice> choice = parseChoice(value);
    if (!choice)
      return {};
    choices[key] = *choice;
  }
  return choices;
}

Status writeTuningFile(const std::string &path, const TuningIdentity &identity, const TuningChoices &choices) {
  nlohmann::json file = header(identity);
  file["products"] = nlohmann::json::object();
  for (const auto &[key, choice] : choices)
    file["products"][key] = toText(choice);
  return writeFile(path, file.dump(1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n");
}

} // namespace tapeout::rt
