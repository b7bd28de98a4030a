// The matrix product of the CPU target with operands in bf16 or f16. Blocks of them are widened to f32 and multiplied by
// the f32 product; a result in low precision is rounded once, after the sum over all of k. The sums have the bits that gemm
// gives for operands of these values, for any number of threads and both instruction sets.
#pragma once

#include "runtime/base/ElementType.h"
#include "runtime/device/cpu/Gemm.h"

namespace tapeout::rt {

/// a and b have one type; c has that type or F32. F32, BF16 or F16.
struct GemmTypes {
  ElementType operand = ElementType::F32;
  ElementType result = ElementType::F32;
};

/// Whether the types are such.
constexpr bool isGemmTypes(ElementType a, ElementType b, ElementType c) {
  bool known = a == ElementType::F32 || a == ElementType::BF16 || a == ElementType::F16;
  return known && a == b && (c == a || c == ElementType::F32);
}

/// f32 blocks of the operands and the result, one set per thread. Serves one product at a time.
class GemmStaging {
public:
  /// Unavailable if the memory cannot be had.
  static Result<GemmStaging> create(int threads);

  int threads() const { return threads_; }
  float *ofThread(int64_t thread) const;

private:
  struct Free {
    void operator()(float *memory) const;
  };
  int threads_ = 0;
  std::unique_ptr<float, Free> memory_;
};

/// As gemm(), which serves where both types are F32.
void lowPrecisionGemm(const GemmProblem &problem, GemmTypes types, const void *a, const void *b, void *c, CpuIsa isa,
                      ThreadPool &pool, GemmWorkspace &workspace, GemmStaging &staging,
                      FunctionRef<void(GemmPiece)> finish = {});

} // namespace tapeout::rt
