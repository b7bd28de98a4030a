// manifest.json: {"manifest": {...}, "sha256": hash of the first member's compact text}, so that it notices damage to
// itself.
#pragma once

#include "runtime/base/Status.h"
#include "runtime/io/Checkpoint.h"

#include <cstdint>
#include <string>

namespace tapeout::rt {

struct StoredManifest {
  CheckpointManifest manifest;
  uint64_t stateBytes = 0; ///< size of state.safetensors
  std::string stateHash;   ///< its SHA-256
};

/// The text of the file.
std::string writeManifest(const StoredManifest &stored);

/// Errors: MissingInput (66), BadData (65) for damage and for entries that are missing or malformed.
Result<StoredManifest> readManifest(const std::string &path);

} // namespace tapeout::rt
