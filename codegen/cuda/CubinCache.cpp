#include "codegen/cuda/CubinCache.h"

#include "runtime/base/AtomicFile.h"
#include "runtime/base/Sha256.h"

#include <algorithm>
#include <filesystem>
#include <vector>

namespace fs = std::filesystem;

namespace tapeout::codegen {
namespace {

constexpr size_t kMaxEntry = size_t(1) << 30;

// An entry is the hash of the cubin, then the cubin.
std::string digestOf(const std::string &bytes) {
  Sha256 hash;
  hash.update(bytes.data(), bytes.size());
  Sha256Digest digest = hash.finish();
  return std::string(digest.begin(), digest.end());
}

} // namespace

std::string CubinCache::keyOf(const std::string &ptx, const std::string &architecture, const std::string &assembler) {
  std::string digest = digestOf(assembler + '\0' + architecture + '\0' + ptx), key;
  for (unsigned char byte : digest)
    for (int nibble : {byte >> 4, byte & 15})
      key += "0123456789abcdef"[nibble];
  return key;
}

std::optional<std::string> CubinCache::find(const std::string &key) const {
  std::error_code error;
  if (folder_.empty() || !fs::exists(pathOf(key), error))
    return std::nullopt;
  Result<std::string> entry = readFile(pathOf(key), kMaxEntry);
  constexpr size_t kDigest = sizeof(Sha256Digest);
  if (!entry.isOk() || entry->size() <= kDigest || digestOf(entry->substr(kDigest)) != entry->substr(0, kDigest))
    return std::nullopt;
  fs::last_write_time(pathOf(key), fs::file_time_type::clock::now(), error); // used entries stay longest
  return entry->substr(kDigest);
}

void CubinCache::add(const std::string &key, const std::string &cubin) const {
  if (folder_.empty())
    return;
  std::error_code error;
  fs::create_directories(folder_, error);
  (void)writeFile(pathOf(key), digestOf(cubin) + cubin);
}

void CubinCache::trim() const {
  struct Entry {
    fs::file_time_type time;
    fs::path path;
    uint64_t bytes;
  };
  std::vector<Entry> entries;
  uint64_t total = 0;
  std::error_code error;
  for (fs::directory_iterator it(folder_, error), end; !error && it != end; it.increment(error)) {
    if (it->path().extension() != ".cubin")
      continue;
    std::error_code missing; // another process may trim, too
    Entry entry{it->last_write_time(missing), it->path(), it->file_size(missing)};
    if (missing)
      continue;
    total += entry.bytes;
    entries.push_back(std::move(entry));
  }
  std::sort(entries.begin(), entries.end(), [](const Entry &a, const Entry &b) { return a.time < b.time; });
  for (const Entry &entry : entries) {
    if (total <= maxBytes_)
      return;
    fs::remove(entry.path, error);
    total -= entry.bytes;
  }
}

} // namespace tapeout::codegen
