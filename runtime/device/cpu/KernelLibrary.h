// The generated kernels of a training executable: an ELF shared object that is loaded from memory.
//
// Every kernel exists twice, `<symbol>_avx2` and `<symbol>_avx512`, with the same bits as result.
#pragma once

#include "runtime/base/Status.h"
#include "runtime/device/cpu/CpuIsa.h"

#include <cstdint>
#include <memory>
#include <span>
#include <string>

namespace tapeout::rt {

/// Computes units [begin, end). `arguments` are the addresses of the operands, then of the results.
using KernelFunction = void (*)(void *const *arguments, int64_t begin, int64_t end);

class KernelLibrary {
public:
  /// Errors: BadData when the bytes are no shared object for this processor, Unavailable when it cannot be loaded.
  static Result<std::unique_ptr<KernelLibrary>> load(std::span<const uint8_t> sharedObject);
  ~KernelLibrary();
  KernelLibrary(const KernelLibrary &) = delete;
  KernelLibrary &operator=(const KernelLibrary &) = delete;

  /// BadData when the library lacks the kernel. Valid while the library lives.
  Result<KernelFunction> resolve(const std::string &symbol, CpuIsa isa) const;

private:
  KernelLibrary() = default;

  // Open as long as the library is loaded: dlopen recognises libraries by path, and the path contains this number.
  int descriptor_ = -1;
  void *handle_ = nullptr;
};

} // namespace tapeout::rt
