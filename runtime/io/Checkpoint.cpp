#include "runtime/io/Checkpoint.h"

#include "runtime/base/AtomicFile.h"
#include "runtime/base/Safetensors.h"
#include "runtime/base/Sha256.h"
#include "runtime/io/CheckpointManifest.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <optional>

namespace fs = std::filesystem;

namespace tapeout::rt {

namespace {

constexpr std::string_view kStepPrefix = "step-";
/// Of folders that hold what is being written or removed. They are cleared before each save.
constexpr std::string_view kTemporaryPrefix = ".tapeout-tmp-";

Status error(ExitCode code, std::string message) { return Status::error(code, std::move(message)); }

// --- Folders
// -----------------------------------------------------------------------------------------------------------

struct StepFolder {
  uint64_t step;
  fs::path path;
};

std::string stepName(uint64_t step) { return fmt::format("{}{:08}", kStepPrefix, step); }

std::optional<uint64_t> parseStepName(std::string_view name) {
  uint64_t step = 0;
  if (!name.starts_with(kStepPrefix))
    return std::nullopt;
  name.remove_prefix(kStepPrefix.size());
  auto [end, failure] = std::from_chars(name.data(), name.data() + name.size(), step);
  if (failure != std::errc() || end != name.data() + name.size())
    return std::nullopt;
  return step;
}

fs::path manifestPath(const fs::path &folder) { return folder / "manifest.json"; }
fs::path statePath(const fs::path &folder) { return folder / "state.safetensors"; }

/// Whether a save got as far as its last step; says nothing about damage done later.
bool isComplete(const fs::path &folder) {
  std::error_code ignored;
  return fs::exists(manifestPath(folder), ignored) && fs::exists(statePath(folder), ignored);
}

template <typename Function> void forEachEntry(const fs::path &directory, Function function) {
  std::error_code failure;
  for (fs::directory_iterator entry(directory, failure), end; !failure && entry != end; entry.increment(failure))
    function(entry->path());
}

/// The complete checkpoints of a directory, newest first.
std::vector<StepFolder> completeFolders(const fs::path &directory) {
  std::vector<StepFolder> folders;
  forEachEntry(directory, [&](const fs::path &path) {
    std::optional<uint64_t> step = parseStepName(path.filename().string());
    if (step && isComplete(path))
      folders.push_back({*step, path});
  });
  std::sort(folders.begin(), folders.end(), [](const StepFolder &a, const StepFolder &b) { return a.step > b.step; });
  return folders;
}

// --- Reading
// -----------------------------------------------------------------------------------------------------------

struct Storage {
  MappedFile file;
  std::optional<Safetensors> tensors;
};

/// Reads and checks one step folder. The message of a damaged one names the file and the damage, but no remedy.
Result<LoadedCheckpoint> readStepFolder(const fs::path &folder) {
  Result<StoredManifest> stored = readManifest(manifestPath(folder).string());
  if (!stored.isOk())
    return stored.status();
  std::string path = statePath(folder).string();
  Result<MappedFile> file = MappedFile::open(path);
  if (!file.isOk())
    return file.status();
  if (file->size() != stored->stateBytes)
    return error(ExitCode::BadData, fmt::format("{} is damaged: it has {} bytes, but its manifest says {}", path,
                                                file->size(), stored->stateBytes));
  if (toHex(sha256(file->bytes())) != stored->stateHash)
    return error(ExitCode::BadData, fmt::format("{} is damaged: its SHA-256 is not the one in its manifest", path));

  auto storage = std::make_shared<Storage>(Storage{std::move(*file), std::nullopt});
  Result<Safetensors> tensors = Safetensors::parse(storage->file.bytes(), path);
  if (!tensors.isOk())
    return tensors.status();
  storage->tensors = std::move(*tensors);

  LoadedCheckpoint loaded{folder.string(), std::move(stored->manifest), {}, nullptr};
  for (const TensorEntry &entry : storage->tensors->tensors()) {
    std::optional<ElementType> type = toElementType(entry.type);
    if (!type)
      return error(ExitCode::BadData, fmt::format("{}: tensor '{}' has the type {}, which no training state has", path,
                                                  entry.name, name(entry.type)));
    loaded.tensors.push_back({entry.name, *type, entry.shape, storage->tensors->data(entry)});
  }
  std::sort(loaded.tensors.begin(), loaded.tensors.end(),
            [](const CheckpointTensor &a, const CheckpointTensor &b) { return a.name < b.name; });
  loaded.storage = std::move(storage);
  return loaded;
}

/// What to do about a checkpoint that cannot be used: the newest intact one among its neighbours.
std::string remedyFor(const fs::path &damaged) {
  for (const StepFolder &folder : completeFolders(damaged.parent_path()))
    if (folder.path != damaged && readStepFolder(folder.path).isOk())
      return fmt::format("resume from {}, which is intact, by giving this path", folder.path.string());
  return "no other checkpoint beside it is intact, so start again in another directory";
}

/// The step folder that a directory's `latest` names, or the newest complete one; empty when there is none.
fs::path latestFolder(const fs::path &directory) {
  Result<std::string> latest = readFile((directory / "latest").string(), 64);
  if (latest.isOk()) {
    std::string name = latest->substr(0, latest->find('\n'));
    if (parseStepName(name) && isComplete(directory / name))
      return directory / name;
  }
  std::vector<StepFolder> folders = completeFolders(directory);
  return folders.empty() ? fs::path() : folders.front().path;
}

// --- Writing
// -----------------------------------------------------------------------------------------------------------

Status writeState(const std::string &path, std::vector<CheckpointTensor> tensors) {
  // Wide types first, so that every tensor is aligned in the file; by name, so that equal states give equal files.
  std::sort(tensors.begin(), tensors.end(), [](const CheckpointTensor &a, const CheckpointTensor &b) {
    return std::pair(elementSize(b.type), std::string_view(a.name)) <
           std::pair(elementSize(a.type), std::string_view(b.name));
  });
  std::vector<TensorDeclaration> declarations;
  for (const CheckpointTensor &tensor : tensors)
    declarations.push_back({tensor.name, toTensorType(tensor.type), tensor.shape});
  Result<SafetensorsWriter> writer = SafetensorsWriter::create(path, declarations);
  if (!writer.isOk())
    return writer.status();
  for (const CheckpointTensor &tensor : tensors)
    TAPEOUT_RETURN_IF_ERROR(writer->write(tensor.bytes.data(), tensor.bytes.size()));
  return writer->commit();
}

Status writeStepFolder(const fs::path &folder, const CheckpointContents &contents) {
  std::string path = statePath(folder).string();
  TAPEOUT_RETURN_IF_ERROR(writeState(path, contents.tensors));
  Result<MappedFile> state = MappedFile::open(path);
  if (!state.isOk())
    return state.status();
  StoredManifest stored{contents.manifest, state->size(), toHex(sha256(state->bytes()))};
  TAPEOUT_RETURN_IF_ERROR(writeFile(manifestPath(folder).string(), writeManifest(stored)));
  return syncDirectory(folder.string());
}

/// Renames a finished folder. What has the name already, from a run that was resumed from an earlier step, changes
/// places with it in the same instant.
Status publish(const fs::path &finished, const fs::path &folder) {
  int failed = ::rename(finished.c_str(), folder.c_str());
  if (failed && (errno == ENOTEMPTY || errno == EEXIST))
    failed = ::renameat2(AT_FDCWD, finished.c_str(), AT_FDCWD, folder.c_str(), RENAME_EXCHANGE);
  if (failed)
    return error(ExitCode::WriteFailed,
                 fmt::format("{}: cannot give the finished checkpoint its name ({}); remove what has "
                             "this name or use another directory",
                             folder.string(), std::strerror(errno)));
  return syncDirectory(folder.parent_path().string());
}

/// Everything of a save that can run out of space happens in `temporary`, which is then moved into place.
Status saveThrough(const fs::path &temporary, const fs::path &directory, const CheckpointContents &contents) {
  std::error_code failure;
  fs::path folder = temporary / "step";
  fs::create_directories(folder, failure);
  if (failure)
    return error(ExitCode::WriteFailed,
                 fmt::format("{}: the checkpoint's folder cannot be made ({}); check the disk's free "
                             "space and the permissions",
                             folder.string(), failure.message()));
  std::string name = stepName(contents.manifest.step);
  fs::path latest = temporary / "latest";
  TAPEOUT_RETURN_IF_ERROR(writeStepFolder(folder, contents));
  TAPEOUT_RETURN_IF_ERROR(writeFile(latest.string(), name + "\n"));
  TAPEOUT_RETURN_IF_ERROR(publish(folder, directory / name));
  return publish(latest, directory / "latest");
}

/// Removes what killed saves and removals have left. Only folders: files of this name belong to other writers.
void removeTemporaries(const fs::path &directory) {
  std::vector<fs::path> leftovers;
  forEachEntry(directory, [&](const fs::path &path) {
    std::error_code ignored;
    if (path.filename().string().starts_with(kTemporaryPrefix) && fs::is_directory(path, ignored))
      leftovers.push_back(path);
  });
  std::error_code ignored;
  for (const fs::path &path : leftovers)
    fs::remove_all(path, ignored);
}

/// Later steps belong to another run of this directory and are left alone.
Status removeOld(const fs::path &directory, uint64_t newestStep, int keep) {
  int seen = 0;
  for (const StepFolder &folder : completeFolders(directory)) {
    if (folder.step > newestStep || ++seen <= keep)
      continue;
    std::error_code failure;
    // Renamed first: a checkpoint must not be there in part.
    fs::path temporary = directory / fmt::format("{}{}", kTemporaryPrefix, folder.path.filename().string());
    fs::rename(folder.path, temporary, failure);
    if (!failure)
      fs::remove_all(temporary, failure);
    if (failure)
      return error(ExitCode::WriteFailed,
                   fmt::format("{}: the old checkpoint cannot be removed ({}); remove it and check the permissions",
                               folder.path.string(), failure.message()));
  }
  return Status::ok();
}

Status checkContents(const CheckpointContents &contents) {
  for (const auto &[name, value] : contents.manifest.config)
    if (!std::isfinite(value))
      return error(ExitCode::BadConfig,
                   fmt::format("the hyperparameter '{}' is {} and cannot be saved; set it to a number", name, value));
  return Status::ok();
}

} // namespace

Status saveCheckpoint(const std::string &directory, const CheckpointContents &contents, int keep) {
  TAPEOUT_RETURN_IF_ERROR(checkContents(contents));
  std::error_code failure;
  fs::create_directories(directory, failure);
  if (failure)
    return error(ExitCode::CannotCreate,
                 fmt::format("{}: the checkpoint directory cannot be made ({}); give another one", directory,
                             failure.message()));
  removeTemporaries(directory);
  Status status =
      saveThrough(fs::path(directory) / fmt::format("{}save", kTemporaryPrefix), fs::path(directory), contents);
  removeTemporaries(directory); // what a failure has left, or the checkpoint that has been replaced
  if (!status.isOk())
    return error(ExitCode::WriteFailed,
                 fmt::format("{}; the checkpoints saved before are as they were", status.message()));
  return removeOld(directory, contents.manifest.step, std::max(keep, 1));
}

Result<LoadedCheckpoint> loadCheckpoint(const std::string &path, std::string_view expectedPlanHash) {
  fs::path folder = fs::path(path).lexically_normal();
  if (!folder.has_filename())
    folder = folder.parent_path();
  std::error_code ignored;
  if (!parseStepName(folder.filename().string()) && !fs::exists(manifestPath(folder), ignored)) {
    folder = latestFolder(folder);
    if (folder.empty())
      return error(ExitCode::MissingInput,
                   fmt::format("{}: there is no complete checkpoint; start without resuming", path));
  }

  Result<LoadedCheckpoint> loaded = readStepFolder(folder);
  if (!loaded.isOk())
    return error(loaded.status().code(), fmt::format("{}; {}", loaded.status().message(), remedyFor(folder)));
  if (loaded->manifest.planHash != expectedPlanHash)
    return error(ExitCode::BadConfig,
                 fmt::format("{} was written by another model or with other compile options (plan {:.12} there, {:.12} "
                             "here); resume with the executable that wrote it or use another checkpoint directory",
                             folder.string(), loaded->manifest.planHash, expectedPlanHash));
  return loaded;
}

bool hasCheckpoint(const std::string &directory) { return !completeFolders(directory).empty(); }

} // namespace tapeout::rt
