#include "runtime/device/cuda/CublasLt.h"

#include "runtime/device/cuda/LibrarySearch.h"

namespace tapeout::rt {

Result<CublasLt> CublasLt::open() {
  constexpr const char *kNames[] = {"libcublasLt.so.13", "libcublasLt.so.12"};
  Result<void *> library = openLibrary(
      kNames, nvidiaLibraryFolders(), "this executable multiplies matrices with cuBLASLt, which is not found",
      "install the CUDA toolkit or the Python package nvidia-cublas, or set CUDA_HOME or LD_LIBRARY_PATH to where it is");
  return library.isOk() ? resolve(*library) : library.status();
}

Result<CublasLt> CublasLt::resolve(void *library) {
  CublasLt blas = {};
  SymbolTable symbols(library);
  symbols.find("cublasLtGetVersion", blas.getVersion);
  symbols.find("cublasLtGetStatusString", blas.getStatusString);
  symbols.find("cublasLtCreate", blas.create);
  symbols.find("cublasLtDestroy", blas.destroy);
  symbols.find("cublasLtMatmulDescCreate", blas.matmulDescCreate);
  symbols.find("cublasLtMatmulDescDestroy", blas.matmulDescDestroy);
  symbols.find("cublasLtMatmulDescSetAttribute", blas.matmulDescSetAttribute);
  symbols.find("cublasLtMatrixLayoutCreate", blas.layoutCreate);
  symbols.find("cublasLtMatrixLayoutDestroy", blas.layoutDestroy);
  symbols.find("cublasLtMatrixLayoutSetAttribute", blas.layoutSetAttribute);
  symbols.find("cublasLtMatmulPreferenceCreate", blas.preferenceCreate);
  symbols.find("cublasLtMatmulPreferenceDestroy", blas.preferenceDestroy);
  symbols.find("cublasLtMatmulPreferenceSetAttribute", blas.preferenceSetAttribute);
  symbols.find("cublasLtMatmulAlgoGetHeuristic", blas.algoGetHeuristic);
  symbols.find("cublasLtMatmulAlgoCheck", blas.algoCheck);
  symbols.find("cublasLtMatmul", blas.matmul);
  TAPEOUT_RETURN_IF_ERROR(symbols.status("cuBLASLt"));
  return blas;
}

} // namespace tapeout::rt
