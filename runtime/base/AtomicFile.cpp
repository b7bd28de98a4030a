#include "runtime/base/AtomicFile.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <system_error>
#include <unistd.h>

using namespace tapeout;

namespace {

constexpr size_t kMaxTransfer = size_t{1} << 30; // Linux moves at most 2 GiB per call

std::string describe(int error) { return std::generic_category().message(error); }

std::string folderOf(const std::string &path) {
  size_t slash = path.rfind('/');
  if (slash == std::string::npos)
    return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

const char *kindOf(mode_t mode) {
  if (S_ISDIR(mode))
    return "a directory";
  if (S_ISFIFO(mode))
    return "a pipe";
  if (S_ISSOCK(mode))
    return "a socket";
  return "a device";
}

/// Closes on every way out.
struct Descriptor {
  int value = -1;
  ~Descriptor() {
    if (value >= 0)
      ::close(value);
  }
};

/// Opens a regular file for reading and gives its size.
Status openRegular(const std::string &path, Descriptor &descriptor, size_t &size) {
  // O_NONBLOCK: opening a pipe must not wait for its writer before we can refuse it.
  descriptor.value = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  if (descriptor.value < 0)
    return Status::error(ExitCode::MissingInput, fmt::format("cannot open '{}': {}", path, describe(errno)));
  struct stat info;
  if (::fstat(descriptor.value, &info) != 0)
    return Status::error(ExitCode::MissingInput, fmt::format("cannot inspect '{}': {}", path, describe(errno)));
  if (!S_ISREG(info.st_mode))
    return Status::error(ExitCode::MissingInput,
                         fmt::format("'{}' is {}; give the name of a regular file", path, kindOf(info.st_mode)));
  size = static_cast<size_t>(info.st_size);
  return Status::ok();
}

} // namespace

Result<AtomicFile> AtomicFile::create(const std::string &path, unsigned mode) {
  if (path.empty() || path.back() == '/')
    return Status::error(ExitCode::CannotCreate, fmt::format("cannot create '{}': it is not the name of a file", path));
  struct stat info;
  if (::stat(path.c_str(), &info) == 0 && !S_ISREG(info.st_mode))
    return Status::error(ExitCode::CannotCreate, fmt::format("cannot write '{}': it is {}; give the name of a file",
                                                             path, kindOf(info.st_mode)));
  AtomicFile file;
  file.path_ = path;
  std::string prefix = fmt::format("{}/.tapeout-tmp-{}-", folderOf(path), ::getpid());
  for (int attempt = 0; file.descriptor_ < 0; ++attempt) {
    std::string temporary = prefix + std::to_string(attempt);
    file.descriptor_ = ::open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, static_cast<mode_t>(mode));
    if (file.descriptor_ >= 0)
      file.temporary_ = std::move(temporary);
    else if (errno != EEXIST && errno != EINTR)
      return Status::error(ExitCode::CannotCreate, fmt::format("cannot create '{}': {}", path, describe(errno)));
  }
  return file;
}

AtomicFile::AtomicFile(AtomicFile &&other) noexcept
    : path_(std::move(other.path_)), temporary_(std::exchange(other.temporary_, {})),
      descriptor_(std::exchange(other.descriptor_, -1)), bytesWritten_(std::exchange(other.bytesWritten_, 0)) {}

AtomicFile &AtomicFile::operator=(AtomicFile &&other) noexcept {
  if (this != &other) {
    discard();
    path_ = std::move(other.path_);
    temporary_ = std::exchange(other.temporary_, {});
    descriptor_ = std::exchange(other.descriptor_, -1);
    bytesWritten_ = std::exchange(other.bytesWritten_, 0);
  }
  return *this;
}

AtomicFile::~AtomicFile() { discard(); }

void AtomicFile::discard() {
  if (descriptor_ >= 0)
    ::close(std::exchange(descriptor_, -1));
  if (!temporary_.empty())
    ::unlink(std::exchange(temporary_, {}).c_str());
}

Status AtomicFile::write(const void *data, size_t size) {
  const char *next = static_cast<const char *>(data);
  while (size > 0) {
    ssize_t written = ::write(descriptor_, next, std::min(size, kMaxTransfer));
    if (written < 0 && errno == EINTR)
      continue;
    if (written < 0)
      return Status::error(ExitCode::WriteFailed,
                           fmt::format("cannot write '{}' after {} bytes: {}", path_, bytesWritten_, describe(errno)));
    next += written;
    size -= static_cast<size_t>(written);
    bytesWritten_ += static_cast<uint64_t>(written);
  }
  return Status::ok();
}

Status AtomicFile::commit() {
  // close() reports what a network file system could not store.
  bool stored = ::fsync(descriptor_) == 0;
  int error = errno;
  if (::close(std::exchange(descriptor_, -1)) != 0 && stored) {
    stored = false;
    error = errno;
  }
  if (stored && ::rename(temporary_.c_str(), path_.c_str()) != 0) {
    stored = false;
    error = errno;
  }
  if (!stored) {
    discard();
    return Status::error(ExitCode::WriteFailed, fmt::format("cannot finish writing '{}': {}", path_, describe(error)));
  }
  temporary_.clear();
  return syncDirectory(folderOf(path_));
}

Result<FolderLock> FolderLock::take(const std::string &folder) {
  Descriptor descriptor{::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)};
  if (descriptor.value < 0)
    return Status::error(ExitCode::MissingInput, fmt::format("cannot open '{}': {}", folder, describe(errno)));
  if (::flock(descriptor.value, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK)
    return Status::error(ExitCode::BadConfig,
                         fmt::format("'{}' is in use by another run; wait for it or give another folder", folder));
  return FolderLock(std::exchange(descriptor.value, -1));
}

FolderLock::FolderLock(FolderLock &&other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}

FolderLock::~FolderLock() {
  if (descriptor_ >= 0)
    ::close(descriptor_);
}

Status tapeout::syncDirectory(const std::string &folder) {
  Descriptor descriptor{::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)};
  // Some file systems cannot sync a folder (EINVAL): then renaming is all that can be had.
  if (descriptor.value < 0 || (::fsync(descriptor.value) != 0 && errno != EINVAL))
    return Status::error(ExitCode::WriteFailed,
                         fmt::format("cannot sync the folder '{}': {}", folder, describe(errno)));
  return Status::ok();
}

Status tapeout::writeFile(const std::string &path, std::string_view bytes) {
  Result<AtomicFile> file = AtomicFile::create(path);
  if (!file.isOk())
    return file.status();
  TAPEOUT_RETURN_IF_ERROR(file->write(bytes.data(), bytes.size()));
  return file->commit();
}

Result<std::string> tapeout::readFile(const std::string &path, size_t maxBytes) {
  Descriptor descriptor;
  size_t size = 0;
  TAPEOUT_RETURN_IF_ERROR(openRegular(path, descriptor, size));
  // The size is a hint: a file may grow, and those of /proc say 0. One byte more than allowed is read, to notice it.
  std::string content;
  size_t used = 0;
  while (used <= maxBytes) {
    size_t piece = std::max<size_t>(size > used ? size - used + 1 : 0, 4096);
    content.resize(used + std::min({piece, maxBytes - used + 1, kMaxTransfer}));
    ssize_t count = ::read(descriptor.value, content.data() + used, content.size() - used);
    if (count < 0 && errno == EINTR)
      continue;
    if (count < 0)
      return Status::error(ExitCode::MissingInput, fmt::format("cannot read '{}': {}", path, describe(errno)));
    if (count == 0)
      break;
    used += static_cast<size_t>(count);
  }
  if (used > maxBytes)
    return Status::error(ExitCode::BadData,
                         fmt::format("'{}' is larger than the {} bytes allowed for such a file", path, maxBytes));
  content.resize(used);
  return content;
}

Result<MappedFile> MappedFile::open(const std::string &path) {
  Descriptor descriptor;
  size_t size = 0;
  TAPEOUT_RETURN_IF_ERROR(openRegular(path, descriptor, size));
  MappedFile file;
  file.path_ = path;
  if (size == 0) // cannot be mapped
    return file;
  void *address = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, descriptor.value, 0);
  if (address == MAP_FAILED)
    return Status::error(ExitCode::MissingInput, fmt::format("cannot map '{}': {}", path, describe(errno)));
  file.data_ = static_cast<const uint8_t *>(address);
  file.size_ = size;
  return file;
}

MappedFile::MappedFile(MappedFile &&other) noexcept
    : path_(std::move(other.path_)), data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}

MappedFile &MappedFile::operator=(MappedFile &&other) noexcept {
  std::swap(path_, other.path_);
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

MappedFile::~MappedFile() {
  if (data_)
    ::munmap(const_cast<uint8_t *>(data_), size_);
}
