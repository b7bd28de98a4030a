// The part of cuDNN's backend (graph) API that we use, opened from libcudnn.so.9. The declarations follow cudnn_graph.h of
// cuDNN 9.19; there is no need for NVIDIA's headers.
#pragma once

#include "runtime/base/Status.h"
#include "runtime/device/cuda/CudaDriver.h"

#include <cstddef>
#include <cstdint>

namespace tapeout::rt {

using CudnnStatus = int; // cudnnStatus_t
using CudnnHandle = struct CudnnHandleObject *;
using CudnnDescriptor = void *; // cudnnBackendDescriptor_t

constexpr CudnnStatus kCudnnSuccess = 0;

enum class CudnnType : int { F32 = 0, F16 = 2, I32 = 4, BF16 = 9, I64 = 10, Boolean = 11 }; // cudnnDataType_t
enum class CudnnPointwise : int { // cudnnPointwiseMode_t
  Add = 0,
  Multiply = 1,
  Divide = 6,
  Subtract = 9,
  Exp = 13,
  Log = 15,
  Identity = 21,
  GreaterOrEqual = 303,
  Less = 304,
  And = 400,
  Index = 501, // GEN_INDEX
  Select = 601 // BINARY_SELECT
};
enum class CudnnReduction : int { Add = 0, Max = 3 }; // cudnnReduceTensorOp_t

// cudnnBackendDescriptorType_t
enum class CudnnKind : int {
  Pointwise = 0,
  Engine = 2,
  EngineConfig = 3,
  EngineHeuristic = 4,
  ExecutionPlan = 5,
  OperationPointwise = 13,
  OperationGraph = 15,
  VariantPack = 16,
  Tensor = 17,
  Matmul = 18,
  OperationMatmul = 19,
  Reduction = 21,
  OperationReduction = 22,
  OperationReshape = 31,
  Random = 32,
  OperationRandom = 33
};

struct CudnnLibrary {
  /// Unavailable (69) without the library.
  static Result<CudnnLibrary> open();
  /// From an open library.
  static Result<CudnnLibrary> resolve(void *library);

  size_t (*getVersion)(); ///< 91900: 9.19.0
  const char *(*getErrorString)(CudnnStatus status);
  void (*getLastErrorString)(char *message, size_t bytes);
  CudnnStatus (*create)(CudnnHandle *handle);
  CudnnStatus (*destroy)(CudnnHandle handle);
  CudnnStatus (*setStream)(CudnnHandle handle, CuStream stream);
  CudnnStatus (*createDescriptor)(int kind, CudnnDescriptor *descriptor);
  CudnnStatus (*destroyDescriptor)(CudnnDescriptor descriptor);
  CudnnStatus (*setAttribute)(CudnnDescriptor descriptor, int attribute, int type, int64_t count, const void *values);
  CudnnStatus (*getAttribute)(CudnnDescriptor descriptor, int attribute, int type, int64_t room, int64_t *count,
                              void *values);
  CudnnStatus (*finalize)(CudnnDescriptor descriptor);
  CudnnStatus (*execute)(CudnnHandle handle, CudnnDescriptor plan, CudnnDescriptor variantPack);

  /// "cuDNN: `what`: the library's own words".
  Status check(CudnnStatus status, const char *what) const;
};

} // namespace tapeout::rt
