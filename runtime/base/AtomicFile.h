// Files: written whole or not at all, read with a limit, mapped read-only.
//
// Only regular files (or links to them) are read and replaced; directories, pipes and devices are refused. Every
// message names the file. Errors: MissingInput (cannot be read), BadData (too large), CannotCreate, WriteFailed (disk
// full...).
#pragma once

#include "runtime/base/Status.h"

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace tapeout {

/// A file that appears under its name only when complete: written under a temporary name in the same folder, synced,
/// renamed, folder synced. Without commit() nothing is left and an older file of that name stays as it was.
/// A symbolic link of that name is replaced, not followed.
class AtomicFile {
public:
  /// `mode` is reduced by the process's umask.
  static Result<AtomicFile> create(const std::string &path, unsigned mode = 0666);

  AtomicFile(AtomicFile &&other) noexcept;
  AtomicFile &operator=(AtomicFile &&other) noexcept;
  ~AtomicFile();

  Status write(const void *data, size_t size);
  Status write(std::span<const uint8_t> data) { return write(data.data(), data.size()); }

  /// Makes the file visible. Call it once, last.
  Status commit();

  uint64_t bytesWritten() const { return bytesWritten_; }
  const std::string &path() const { return path_; }

private:
  AtomicFile() = default;
  void discard();

  std::string path_;
  std::string temporary_; ///< empty once committed or discarded
  int descriptor_ = -1;
  uint64_t bytesWritten_ = 0;
};

/// A whole file at once, as an AtomicFile.
Status writeFile(const std::string &path, std::string_view bytes);

/// The whole file as bytes; larger than `maxBytes` is BadData.
Result<std::string> readFile(const std::string &path, size_t maxBytes);

/// Keeps other processes that ask for the same folder out while it lives; the system frees it when a process dies.
/// Where the file system has no locks nobody is kept out. Errors: BadConfig when another process holds it.
class FolderLock {
public:
  static Result<FolderLock> take(const std::string &folder);
  FolderLock(FolderLock &&other) noexcept;
  FolderLock &operator=(FolderLock &&other) = delete;
  ~FolderLock();

private:
  explicit FolderLock(int descriptor) : descriptor_(descriptor) {}
  int descriptor_;
};

/// Makes created, renamed and removed names in `folder` survive a power failure.
Status syncDirectory(const std::string &folder);

/// A file in memory, read-only. The spans stay valid while the object, or the one it was moved to, lives. The file must
/// not be shortened meanwhile: the kernel answers an access behind the new end with SIGBUS.
class MappedFile {
public:
  static Result<MappedFile> open(const std::string &path);

  MappedFile(MappedFile &&other) noexcept;
  MappedFile &operator=(MappedFile &&other) noexcept;
  ~MappedFile();

  std::span<const uint8_t> bytes() const { return {data_, size_}; }
  size_t size() const { return size_; }
  const std::string &path() const { return path_; }

private:
  MappedFile() = default;

  std::string path_;
  const uint8_t *data_ = nullptr;
  size_t size_ = 0;
};

} // namespace tapeout
