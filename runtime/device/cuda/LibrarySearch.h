// NVIDIA's libraries are opened when a plan needs them, so that the same runner starts on machines without them.
#pragma once

#include "runtime/base/Status.h"

#include <span>
#include <string>
#include <vector>

namespace tapeout::rt {

/// Folders that may hold NVIDIA's libraries where the loader does not look: the toolkit's, then those of Python wheels. Only
/// folders that exist, in a fixed order. `root` stands before every absolute path, for tests.
std::vector<std::string> nvidiaLibraryFolders(const std::string &root = "");

/// Opens the first of `names` that the loader finds by itself, else the first in `folders`. The library stays open to the
/// end of the process, since drivers do not survive being closed. Unavailable (69): one sentence that begins with `need`.
Result<void *> openLibrary(std::span<const char *const> names, std::span<const std::string> folders,
                           const std::string &need, const std::string &remedy);

/// Looks functions up and remembers the first that is missing.
class SymbolTable {
public:
  explicit SymbolTable(void *library) : library_(library) {}
  template <typename Function> void find(const char *name, Function &function) {
    function = reinterpret_cast<Function>(lookUp(name));
    if (!function && !missing_)
      missing_ = name;
  }
  /// One that older libraries lack: null there.
  template <typename Function> void findOptional(const char *name, Function &function) {
    function = reinterpret_cast<Function>(lookUp(name));
  }
  /// Unavailable when one was missing; `library` is what the message calls it.
  Status status(const char *library) const;

private:
  void *lookUp(const char *name) const;

  void *library_;
  const char *missing_ = nullptr;
};

} // namespace tapeout::rt
