#include "runtime/io/CheckpointManifest.h"

#include "runtime/base/AtomicFile.h"
#include "runtime/base/Json.h"
#include "runtime/base/Sha256.h"

#include <fmt/format.h>

#include <stdexcept>
#include <type_traits>

namespace tapeout::rt {

constexpr uint32_t kFormatVersion = 1;
constexpr size_t kMaxManifestBytes = size_t{16} << 20;

namespace {

Status badData(std::string message) { return Status::error(ExitCode::BadData, std::move(message)); }

/// Replacing bytes that are no UTF-8 keeps dump() from throwing.
constexpr auto kReplace = nlohmann::json::error_handler_t::replace;

std::string hashOf(const nlohmann::json &json) {
  std::string text = json.dump(-1, ' ', false, kReplace);
  return toHex(sha256({reinterpret_cast<const uint8_t *>(text.data()), text.size()}));
}

/// Reads members of a JSON object; the first one that is missing or of another kind is remembered.
class ObjectReader {
public:
  ObjectReader(const nlohmann::json &object, std::string_view path) : object_(object), path_(path) {}

  template <typename T> void read(const char *key, T &value) {
    auto member = object_.is_object() ? object_.find(key) : object_.end();
    try {
      if (member == object_.end())
        throw std::invalid_argument(key);
      if constexpr (std::is_same_v<T, uint64_t>)
        if (!member->is_number_unsigned())
          throw std::invalid_argument(key);
      value = member->template get<T>();
    } catch (const std::exception &) {
      if (status_.isOk())
        status_ = badData(fmt::format("{} has no valid entry '{}'", path_, key));
    }
  }

  const Status &status() const { return status_; }

private:
  const nlohmann::json &object_;
  std::string_view path_;
  Status status_;
};

} // namespace

std::string writeManifest(const StoredManifest &stored) {
  const CheckpointManifest &manifest = stored.manifest;
  nlohmann::json json = {
      {"format_version", kFormatVersion},
      {"step", manifest.step},
      {"plan_hash", manifest.planHash},
      {"config", nlohmann::json(manifest.config)},
      {"position", {{"epoch", manifest.position.epoch}, {"sample", manifest.position.sample}}},
      {"state_bytes", stored.stateBytes},
      {"state_sha256", stored.stateHash},
      {"extra", nlohmann::json(manifest.extra)},
  };
  return nlohmann::json{{"manifest", json}, {"sha256", hashOf(json)}}.dump(2, ' ', false, kReplace) + "\n";
}

Result<StoredManifest> readManifest(const std::string &path) {
  Result<std::string> text = readFile(path, kMaxManifestBytes);
  if (!text.isOk())
    return text.status();
  Result<nlohmann::json> file = parseJson(*text, path);
  if (!file.isOk())
    return file.status();
  nlohmann::json json;
  std::string hash;
  ObjectReader outer(*file, path);
  outer.read("manifest", json);
  outer.read("sha256", hash);
  TAPEOUT_RETURN_IF_ERROR(outer.status());
  if (hashOf(json) != hash)
    return badData(fmt::format("{} is damaged: its content does not match its own SHA-256", path));

  StoredManifest stored;
  uint64_t version = 0;
  nlohmann::json position;
  ObjectReader reader(json, path);
  reader.read("format_version", version);
  if (reader.status().isOk() && version != kFormatVersion)
    return badData(fmt::format("{} has format version {}, but only version {} is read", path, version, kFormatVersion));
  reader.read("step", stored.manifest.step);
  reader.read("plan_hash", stored.manifest.planHash);
  reader.read("config", stored.manifest.config);
  reader.read("position", position);
  reader.read("state_bytes", stored.stateBytes);
  reader.read("state_sha256", stored.stateHash);
  reader.read("extra", stored.manifest.extra);
  TAPEOUT_RETURN_IF_ERROR(reader.status());
  ObjectReader positionReader(position, path);
  positionReader.read("epoch", stored.manifest.position.epoch);
  positionReader.read("sample", stored.manifest.position.sample);
  TAPEOUT_RETURN_IF_ERROR(positionReader.status());
  return stored;
}

} // namespace tapeout::rt
