#include "runtime/device/cuda/Cupti.h"

#include "runtime/device/cuda/LibrarySearch.h"

#include <fmt/format.h>

namespace tapeout::rt {
namespace {

// CUDA 12 counts its versions, 12.1 is 18 and 12.9 is 28; from 13.0 on they are 130000 + 100 * minor + patch.
constexpr uint32_t kOldestOf12 = 18, kNewestOf12 = 28, kOldestOf13 = 130000, kNewestOf13 = 130499;

bool isKnown(uint32_t version) {
  return (version >= kOldestOf12 && version <= kNewestOf12) || (version >= kOldestOf13 && version <= kNewestOf13);
}

} // namespace

Result<Cupti> Cupti::open() {
  constexpr const char *kNames[] = {"libcupti.so.13", "libcupti.so.12"};
  Result<void *> library =
      openLibrary(kNames, nvidiaLibraryFolders(), "CUPTI is not found",
                  "install the CUDA toolkit or the Python package nvidia-cuda-cupti, or set CUDA_HOME or LD_LIBRARY_PATH");
  return library.isOk() ? resolve(*library) : library.status();
}

Result<Cupti> Cupti::resolve(void *library) {
  Cupti cupti = {};
  SymbolTable symbols(library);
  symbols.find("cuptiGetVersion", cupti.getVersion);
  symbols.find("cuptiGetResultString", cupti.getResultString);
  symbols.find("cuptiActivityRegisterCallbacks", cupti.registerCallbacks);
  symbols.find("cuptiActivityEnable", cupti.enable);
  symbols.find("cuptiActivityDisable", cupti.disable);
  symbols.find("cuptiActivityFlushAll", cupti.flushAll);
  symbols.find("cuptiActivityGetNextRecord", cupti.getNextRecord);
  TAPEOUT_RETURN_IF_ERROR(symbols.status("CUPTI"));
  uint32_t version = 0;
  TAPEOUT_RETURN_IF_ERROR(cupti.check(cupti.getVersion(&version), "its version"));
  if (!isKnown(version))
    return Status::error(ExitCode::Unavailable,
                         fmt::format("the records of CUPTI's version {} are not known; take that of CUDA 12.1 to 13.4", version));
  return cupti;
}

std::string Cupti::name() const {
  uint32_t version = 0;
  getVersion(&version);
  return version < kOldestOf13 ? "CUPTI of CUDA 12" : fmt::format("CUPTI {}.{}", version / 10000, version / 100 % 100);
}

Status Cupti::check(CuptiResult result, const char *what) const {
  if (result == kCuptiSuccess)
    return Status::ok();
  const char *text = nullptr;
  if (getResultString(result, &text) != kCuptiSuccess || !text)
    text = "an error without a name";
  return Status::error(ExitCode::Failed, fmt::format("CUPTI: {}: {}", what, text));
}

} // namespace tapeout::rt
