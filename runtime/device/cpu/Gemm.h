// The fp32 matrix product of the CPU target, as `table Matmul` in runtime/plan.fbs states it:
//   c[batch, i, j] (+)= sum over p of a[batch, i, p] * b[batch, p, j]
//
// Same bits for any number of threads and for both instruction sets: k is cut into blocks that depend on k alone (at
// most 512 long and equal but for the last). Inside a block every element of c is one chain of fused multiply-adds over
// ascending p that starts at zero; the blocks are added in ascending order, to the old c first when accumulating.
// The blocking is after Goto and van de Geijn, "Anatomy of High-Performance Matrix Multiplication" (2008).
// docs/decisions/0002-cpu-matrix-product.md says why there is no BLAS here.
#pragma once

#include "runtime/base/Status.h"
#include "runtime/device/cpu/CpuIsa.h"
#include "runtime/device/cpu/GemmTriangle.h"
#include "runtime/device/cpu/ThreadPool.h"

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>

namespace tapeout::rt {

constexpr int maxGemmBatchDims = 4;

/// Strides count elements.
struct GemmBatchDim {
  int64_t extent = 1;
  int64_t aStride = 0;
  int64_t bStride = 0;
  int64_t cStride = 0;
};

struct GemmProblem {
  int64_t m = 0, n = 0, k = 0;
  int64_t aRowStride = 0, aColumnStride = 0; // of i, of p
  int64_t bRowStride = 0, bColumnStride = 0; // of p, of j
  int64_t cRowStride = 0, cColumnStride = 0; // of i, of j
  int batchDims = 0;
  std::array<GemmBatchDim, maxGemmBatchDims> batch = {}; // the first batchDims are used
  bool accumulate = false;                               // add to c instead of overwriting it
  GemmTriangle triangle = GemmTriangle::None;
};

/// BadData if an extent is below 1, a stride is negative, a triangle is not square or added to, two elements of c share an address, or an offset overflows.
/// Does not know the sizes of the buffers: the caller checks that gemm's largest offsets lie inside.
Status verifyGemm(const GemmProblem &problem);

/// Bytes that a GemmWorkspace for this many threads holds: 1 MiB for each, and one more for more than one.
int64_t gemmWorkspaceBytes(int threads);

/// Deals the tiles of a product to threads: each takes those of its own range first, then what others have left. Ranges
/// are rows of c: what a thread has written is then in its cache when the next product or kernel reads it.
class TileQueues {
public:
  explicit TileQueues(int threads);
  TileQueues() = default;

  /// Before the threads start. tiles >= queues, queues at most the number of threads.
  void deal(int64_t tiles, int64_t queues);
  /// The next tile for the thread of queue `own`, none when all are taken.
  std::optional<int64_t> take(int64_t own);

private:
  struct alignas(64) Queue {
    std::atomic<int64_t> next = 0;
    int64_t end = 0;
  };
  std::unique_ptr<Queue[]> queues_;
  int64_t count_ = 0;
};

/// The buffers into which gemm copies blocks of its operands, one part per thread. Serves one gemm at a time.
class GemmWorkspace {
public:
  /// Unavailable if the memory cannot be had.
  static Result<GemmWorkspace> create(int threads);

  int threads() const { return threads_; }
  float *ofThread(int64_t thread) const;
  float *partial() const; ///< of a product whose blocks of k are computed side by side; for more than one thread
  TileQueues &queues() { return queues_; }

private:
  struct Free {
    void operator()(float *memory) const;
  };
  int threads_ = 0;
  std::unique_ptr<float, Free> memory_;
  TileQueues queues_;
};

/// A part of c, in rows and columns; columns begin at a multiple of 64.
struct GemmPiece {
  int64_t row, rows, column, columns;
};

/// Computes the product. The problem has passed verifyGemm, c overlaps neither a nor b and the processor has `isa`.
/// Threads beyond workspace.threads() stay idle. `finish`, if given, is called for each piece of c that is complete, by the
/// thread that computed it; c must be one matrix with contiguous rows, m and n above 1.
void gemm(const GemmProblem &problem, const float *a, const float *b, float *c, CpuIsa isa, ThreadPool &pool,
          GemmWorkspace &workspace, FunctionRef<void(GemmPiece)> finish = {});

} // namespace tapeout::rt
