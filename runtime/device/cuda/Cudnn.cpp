#include "runtime/device/cuda/Cudnn.h"

#include "runtime/device/cuda/LibrarySearch.h"

#include <fmt/format.h>

namespace tapeout::rt {

Result<CudnnLibrary> CudnnLibrary::open() {
  constexpr const char *kNames[] = {"libcudnn.so.9"};
  Result<void *> library =
      openLibrary(kNames, nvidiaLibraryFolders(), "this executable computes attention with cuDNN 9, which is not found",
                  "install cuDNN or the Python package nvidia-cudnn-cu13, set LD_LIBRARY_PATH to where it is, or compile "
                  "with --skip-pass select-library-attention");
  return library.isOk() ? resolve(*library) : library.status();
}

Result<CudnnLibrary> CudnnLibrary::resolve(void *library) {
  CudnnLibrary dnn = {};
  SymbolTable symbols(library);
  symbols.find("cudnnGetVersion", dnn.getVersion);
  symbols.find("cudnnGetErrorString", dnn.getErrorString);
  symbols.find("cudnnGetLastErrorString", dnn.getLastErrorString);
  symbols.find("cudnnCreate", dnn.create);
  symbols.find("cudnnDestroy", dnn.destroy);
  symbols.find("cudnnSetStream", dnn.setStream);
  symbols.find("cudnnBackendCreateDescriptor", dnn.createDescriptor);
  symbols.find("cudnnBackendDestroyDescriptor", dnn.destroyDescriptor);
  symbols.find("cudnnBackendSetAttribute", dnn.setAttribute);
  symbols.find("cudnnBackendGetAttribute", dnn.getAttribute);
  symbols.find("cudnnBackendFinalize", dnn.finalize);
  symbols.find("cudnnBackendExecute", dnn.execute);
  TAPEOUT_RETURN_IF_ERROR(symbols.status("cuDNN"));
  return dnn;
}

Status CudnnLibrary::check(CudnnStatus status, const char *what) const {
  if (status == kCudnnSuccess)
    return Status::ok();
  char message[1024] = "";
  getLastErrorString(message, sizeof message);
  return Status::error(ExitCode::Failed, fmt::format("cuDNN: {}: {} {}", what, getErrorString(status), message));
}

} // namespace tapeout::rt
