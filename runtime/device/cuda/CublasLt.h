// The part of cuBLASLt that we use, opened from libcublasLt.so.13 or .12. The declarations follow cublasLt.h of CUDA 13.0 and
// are the same in 12; there is no need for NVIDIA's headers.
#pragma once

#include "runtime/base/Status.h"
#include "runtime/device/cuda/CudaDriver.h"

#include <cstddef>
#include <cstdint>

namespace tapeout::rt {

using CublasStatus = int; // cublasStatus_t
using CublasHandle = struct CublasHandleObject *;
using CublasMatmulDesc = struct CublasMatmulDescObject *;
using CublasMatrixLayout = struct CublasMatrixLayoutObject *;
using CublasPreference = struct CublasPreferenceObject *;

constexpr CublasStatus kCublasSuccess = 0;
constexpr int kCublasCompute32F = 68;                           // cublasComputeType_t; no TF32
constexpr int32_t kCublasOpN = 0, kCublasOpT = 1;               // cublasOperation_t
constexpr int kCudaR32F = 0, kCudaR16F = 2, kCudaR16BF = 14;    // cudaDataType
constexpr int kMatmulDescTransA = 3, kMatmulDescTransB = 4;     // cublasLtMatmulDescAttributes_t
constexpr int kMatmulDescEpilogue = 7, kMatmulDescBiasPointer = 8;
constexpr uint32_t kEpilogueBias = 4;                           // cublasLtEpilogue_t: one number for each row, of the result's type
constexpr int kLayoutBatchCount = 5, kLayoutBatchStride = 6;    // cublasLtMatrixLayoutAttribute_t
constexpr int kPreferenceWorkspaceBytes = 1, kPreferenceReductionSchemes = 3; // cublasLtMatmulPreferenceAttributes_t
constexpr int kPreferenceAlignmentA = 5, kPreferenceAlignmentB = 6, kPreferenceAlignmentC = 7, kPreferenceAlignmentD = 8;
constexpr uint32_t kReductionComputeType = 2; // cublasLtReductionScheme_t: parts are f32 in the workspace

struct CublasAlgorithm { // cublasLtMatmulAlgo_t
  uint64_t data[8];
};
struct CublasHeuristic { // cublasLtMatmulHeuristicResult_t
  CublasAlgorithm algorithm;
  size_t workspaceBytes;
  CublasStatus state;
  float waves;
  int reserved[4];
};

struct CublasLt {
  /// Unavailable (69) without the library.
  static Result<CublasLt> open();
  /// From an open library.
  static Result<CublasLt> resolve(void *library);

  size_t (*getVersion)(); ///< 130100: 13.1.0
  const char *(*getStatusString)(CublasStatus status);
  CublasStatus (*create)(CublasHandle *handle);
  CublasStatus (*destroy)(CublasHandle handle);
  CublasStatus (*matmulDescCreate)(CublasMatmulDesc *desc, int computeType, int scaleType);
  CublasStatus (*matmulDescDestroy)(CublasMatmulDesc desc);
  CublasStatus (*matmulDescSetAttribute)(CublasMatmulDesc desc, int attribute, const void *value, size_t bytes);
  CublasStatus (*layoutCreate)(CublasMatrixLayout *layout, int type, uint64_t rows, uint64_t columns, int64_t leading);
  CublasStatus (*layoutDestroy)(CublasMatrixLayout layout);
  CublasStatus (*layoutSetAttribute)(CublasMatrixLayout layout, int attribute, const void *value, size_t bytes);
  CublasStatus (*preferenceCreate)(CublasPreference *preference);
  CublasStatus (*preferenceDestroy)(CublasPreference preference);
  CublasStatus (*preferenceSetAttribute)(CublasPreference preference, int attribute, const void *value, size_t bytes);
  CublasStatus (*algoGetHeuristic)(CublasHandle handle, CublasMatmulDesc desc, CublasMatrixLayout a, CublasMatrixLayout b,
                                   CublasMatrixLayout c, CublasMatrixLayout d, CublasPreference preference, int wanted,
                                   CublasHeuristic *results, int *found);
  CublasStatus (*algoCheck)(CublasHandle handle, CublasMatmulDesc desc, CublasMatrixLayout a, CublasMatrixLayout b,
                            CublasMatrixLayout c, CublasMatrixLayout d, const CublasAlgorithm *algorithm,
                            CublasHeuristic *result);
  CublasStatus (*matmul)(CublasHandle handle, CublasMatmulDesc desc, const void *alpha, const void *a,
                         CublasMatrixLayout aLayout, const void *b, CublasMatrixLayout bLayout, const void *beta,
                         const void *c, CublasMatrixLayout cLayout, void *d, CublasMatrixLayout dLayout,
                         const CublasAlgorithm *algorithm, void *workspace, size_t workspaceBytes, CuStream stream);
};

} // namespace tapeout::rt
