// Checkpoints: the training state as files that are either complete or not there.
//
//   <dir>/step-00000500/state.safetensors   tensors: parameters, optimizer state, counters
//   <dir>/step-00000500/manifest.json       step, plan hash, config, data position, SHA-256 of the state
//   <dir>/latest                            the name of the newest step folder
//
// A save writes a hidden folder, syncs its files, renames it, and only then moves `latest`: a run that is killed at any
// moment leaves the previous checkpoint usable. One process writes to a directory at a time.
#pragma once

#include "runtime/base/ElementType.h"
#include "runtime/base/Status.h"
#include "runtime/io/DataLoader.h"

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tapeout::rt {

struct CheckpointTensor {
  std::string name;
  ElementType type = ElementType::F32;
  std::vector<int64_t> shape;
  std::span<const uint8_t> bytes; ///< not owned
};

struct CheckpointManifest {
  uint64_t step = 0;                        ///< steps done
  std::string planHash;                     ///< of the executable that wrote it
  std::map<std::string, double> config;     ///< hyperparameters by name; finite
  LoaderPosition position;                  ///< of the next batch
  std::map<std::string, std::string> extra; ///< anything else, by name
};

struct CheckpointContents {
  CheckpointManifest manifest;
  std::vector<CheckpointTensor> tensors;
};

/// A checkpoint in memory; its tensors point into the mapped file that it holds open.
struct LoadedCheckpoint {
  std::string path; ///< the step folder
  CheckpointManifest manifest;
  std::vector<CheckpointTensor> tensors; ///< sorted by name
  std::shared_ptr<const void> storage;   ///< owns the bytes of `tensors`
};

/// Writes a checkpoint and then removes all but the `keep` (>= 1) newest ones of this step or earlier.
/// Errors: CannotCreate (73) when `directory` cannot be made, WriteFailed (74) else; older checkpoints stay as they
/// were.
Status saveCheckpoint(const std::string &directory, const CheckpointContents &contents, int keep);

/// Reads the checkpoint that `latest` names (the newest complete one when `latest` is missing or names an incomplete
/// one), or, when `path` is itself a step folder, that one. Checks the hash of every byte. A damaged checkpoint is
/// refused with the path of an older good one, never skipped silently. Errors: MissingInput (66), BadData (65), and
/// BadConfig (78) when the plan hash is not `expectedPlanHash`.
Result<LoadedCheckpoint> loadCheckpoint(const std::string &path, std::string_view expectedPlanHash);

/// Whether `directory` holds a complete checkpoint.
bool hasCheckpoint(const std::string &directory);

/// Saves on a thread of its own, so that training waits only for a copy of the tensors.
class AsyncCheckpointer {
public:
  AsyncCheckpointer(std::string directory, int keep);
  ~AsyncCheckpointer(); ///< waits for the save in progress
  AsyncCheckpointer(const AsyncCheckpointer &) = delete;
  AsyncCheckpointer &operator=(const AsyncCheckpointer &) = delete;

  /// Waits for the previous save, copies `contents` and returns; if the previous save failed, gives its
  /// error once and saves nothing.
  Status save(const CheckpointContents &contents);
  /// Waits until nothing is being saved and gives the status of the last save.
  Status wait();
  /// The status of the last finished save, without waiting.
  Status lastStatus() const;

private:
  struct State;
  std::unique_ptr<State> state_;
};

} // namespace tapeout::rt
