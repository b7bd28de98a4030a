#include "runtime/device/cpu/KernelLibrary.h"

#include <fmt/format.h>

#include <dlfcn.h>
#include <elf.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>

namespace tapeout::rt {
namespace {

bool isSharedObject(std::span<const uint8_t> bytes) {
  Elf64_Ehdr header;
  if (bytes.size() < sizeof header)
    return false;
  std::memcpy(&header, bytes.data(), sizeof header);
  return std::memcmp(header.e_ident, ELFMAG, SELFMAG) == 0 && header.e_ident[EI_CLASS] == ELFCLASS64 &&
         header.e_type == ET_DYN && header.e_machine == EM_X86_64;
}

bool writeAll(int descriptor, std::span<const uint8_t> bytes) {
  while (!bytes.empty()) {
    ssize_t written = write(descriptor, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR)
      continue;
    if (written <= 0)
      return false;
    bytes = bytes.subspan(written);
  }
  return true;
}

} // namespace

Result<std::unique_ptr<KernelLibrary>> KernelLibrary::load(std::span<const uint8_t> sharedObject) {
  if (!isSharedObject(sharedObject))
    return Status::error(ExitCode::BadData, "the kernels are not an x86-64 shared object; compile the model again");
  std::unique_ptr<KernelLibrary> library(new KernelLibrary);

  // A file without a name; on a system without memfd_create or /proc, a temporary file that loses its name at once.
  library->descriptor_ = memfd_create("tapeout-kernels", MFD_CLOEXEC);
  std::string path = fmt::format("/proc/self/fd/{}", library->descriptor_);
  bool temporary = library->descriptor_ < 0 || access(path.c_str(), R_OK) != 0;
  if (temporary) {
    if (library->descriptor_ >= 0)
      close(library->descriptor_);
    path = "/tmp/tapeout-kernels-XXXXXX";
    library->descriptor_ = mkostemp(path.data(), O_CLOEXEC);
  }
  bool written = library->descriptor_ >= 0 && writeAll(library->descriptor_, sharedObject);
  if (written)
    library->handle_ = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  int writeError = errno;
  if (temporary && library->descriptor_ >= 0)
    unlink(path.c_str());
  if (!written)
    return Status::error(ExitCode::Unavailable,
                         fmt::format("the kernels cannot be put into memory or into /tmp: {}", strerror(writeError)));
  if (!library->handle_)
    return Status::error(ExitCode::Unavailable,
                         fmt::format("the kernels cannot be loaded ({}); compile the model again with the tapeout that "
                                     "this runner belongs to",
                                     dlerror()));
  return library;
}

KernelLibrary::~KernelLibrary() {
  if (handle_)
    dlclose(handle_);
  if (descriptor_ >= 0)
    close(descriptor_);
}

Result<KernelFunction> KernelLibrary::resolve(const std::string &symbol, CpuIsa isa) const {
  std::string name = symbol + (isa == CpuIsa::Avx512 ? "_avx512" : "_avx2");
  void *address = dlsym(handle_, name.c_str());
  if (!address)
    return Status::error(ExitCode::BadData,
                         fmt::format("the kernel '{}' of the plan is not among the kernels of this executable; compile "
                                     "the model again",
                                     name));
  return reinterpret_cast<KernelFunction>(address);
}

} // namespace tapeout::rt
