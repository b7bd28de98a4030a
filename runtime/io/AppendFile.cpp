#include "runtime/io/AppendFile.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <unistd.h>
#include <utility>

namespace tapeout::rt {

Result<AppendFile> AppendFile::open(const std::string &path, uint64_t keepBytes) {
  AppendFile file;
  file.path_ = path;
  file.size_ = keepBytes;
  file.descriptor_ = ::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
  if (file.descriptor_ < 0 || ::ftruncate(file.descriptor_, static_cast<off_t>(keepBytes)) != 0)
    return Status::error(ExitCode::CannotCreate,
                         fmt::format("{}: the file cannot be written ({}); give another log directory or check the "
                                     "permissions",
                                     path, std::strerror(errno)));
  return file;
}

AppendFile::AppendFile(AppendFile &&other) noexcept
    : path_(std::move(other.path_)), descriptor_(std::exchange(other.descriptor_, -1)), size_(other.size_) {}

AppendFile &AppendFile::operator=(AppendFile &&other) noexcept {
  std::swap(path_, other.path_);
  std::swap(descriptor_, other.descriptor_);
  std::swap(size_, other.size_);
  return *this;
}

AppendFile::~AppendFile() {
  if (descriptor_ >= 0)
    ::close(descriptor_);
}

Status AppendFile::append(std::string_view record) {
  std::string_view rest = record;
  while (!rest.empty()) {
    ssize_t written = ::write(descriptor_, rest.data(), rest.size());
    if (written < 0 && errno == EINTR)
      continue;
    if (written <= 0) {
      int cause = errno;
      [[maybe_unused]] int ignored = ::ftruncate(descriptor_, static_cast<off_t>(size_));
      return Status::error(ExitCode::WriteFailed, fmt::format("{}: writing failed ({}); free space on the disk or give "
                                                              "another log directory",
                                                              path_, std::strerror(cause)));
    }
    rest.remove_prefix(static_cast<size_t>(written));
  }
  size_ += record.size();
  return Status::ok();
}

} // namespace tapeout::rt
