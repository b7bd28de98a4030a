// The part of CUPTI's activity API that we use, opened from libcupti.so.13 or .12. The declarations follow cupti_activity.h of
// CUDA 13.0; there is no need for NVIDIA's headers.
//
// Records grow from version to version. These declarations are the beginnings of the records, as far as we read them, and are
// the same in CUDA 12.1 (CUpti_ActivityKernel9, Memcpy5, Memset4) to 13.4 (Kernel13, Memcpy7, Memset5); open() refuses others.
#pragma once

#include "runtime/base/Status.h"
#include "runtime/device/cuda/CudaDriver.h"

#include <cstddef>
#include <cstdint>
#include <string>

namespace tapeout::rt {

using CuptiResult = int; // CUptiResult

constexpr CuptiResult kCuptiSuccess = 0;
enum class CuptiKind : int { Copy = 1, Fill = 2, Kernel = 10 }; // CUpti_ActivityKind; Kernel: those that may overlap
constexpr uint8_t kCuptiCopyToHost = 2;                         // CUpti_ActivityMemcpyKind
constexpr uint32_t kCuptiFlushForced = 1;                       // CUpti_ActivityFlag

struct CuptiRecord { // CUpti_Activity
  CuptiKind kind;
};
struct CuptiKernelRecord { // CUpti_ActivityKernel10; times in nanoseconds
  CuptiKind kind;
  uint32_t other0[3];
  uint64_t begin, end;
  uint32_t other1[18];
  const char *name;
  uint64_t other2[4];
  uint64_t graphNode; // 0: not launched by a graph
};
struct CuptiCopyRecord { // CUpti_ActivityMemcpy6
  CuptiKind kind;
  uint8_t copyKind, other0[3];
  uint64_t bytes;
  uint64_t begin, end;
  uint32_t other1[8];
  uint64_t graphNode;
};
struct CuptiFillRecord { // CUpti_ActivityMemset4
  CuptiKind kind;
  uint32_t other0;
  uint64_t bytes;
  uint64_t begin, end;
  uint32_t other1[8];
  uint64_t graphNode;
};
static_assert(offsetof(CuptiKernelRecord, begin) == 16 && offsetof(CuptiKernelRecord, name) == 104 &&
              offsetof(CuptiKernelRecord, graphNode) == 144);
static_assert(offsetof(CuptiCopyRecord, begin) == 16 && offsetof(CuptiCopyRecord, graphNode) == 64);
static_assert(offsetof(CuptiFillRecord, begin) == 16 && offsetof(CuptiFillRecord, graphNode) == 64);

struct Cupti {
  using GiveBuffer = void(uint8_t **buffer, size_t *bytes, size_t *mostRecords);
  using TakeBuffer = void(CuContext context, uint32_t stream, uint8_t *buffer, size_t bytes, size_t validBytes);

  /// Unavailable (69) without the library, or when its records are not known.
  static Result<Cupti> open();
  /// From an open library.
  static Result<Cupti> resolve(void *library);

  CuptiResult (*getVersion)(uint32_t *version); ///< 28: CUDA 12.9; 130001: 13.0
  CuptiResult (*getResultString)(CuptiResult result, const char **text);
  CuptiResult (*registerCallbacks)(GiveBuffer *give, TakeBuffer *take);
  CuptiResult (*enable)(CuptiKind kind);
  CuptiResult (*disable)(CuptiKind kind);
  CuptiResult (*flushAll)(uint32_t flags);
  CuptiResult (*getNextRecord)(uint8_t *buffer, size_t validBytes, CuptiRecord **record);

  /// "CUPTI 13.0", or "CUPTI of CUDA 12".
  std::string name() const;
  /// "CUPTI: `what`: the library's own words".
  Status check(CuptiResult result, const char *what) const;
};

} // namespace tapeout::rt
