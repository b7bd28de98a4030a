// The matrix product of the plan as the CPU device takes it; PlanCheck and Executor share it.
#pragma once

#include "runtime/device/cpu/LowPrecisionGemm.h"
#include "runtime/plan_generated.h"

namespace tapeout::rt {

constexpr int64_t kEpilogueColumns = 64; // of one unit
/// Units of an epilogue for one row of so many columns.
constexpr int64_t epilogueUnits(int64_t columns) { return (columns + kEpilogueColumns - 1) / kEpilogueColumns; }

/// `matmul` has at most maxGemmBatchDims batch dimensions.
inline GemmProblem toGemmProblem(const plan::Matmul &matmul) {
  GemmProblem problem;
  problem.m = matmul.m();
  problem.n = matmul.n();
  problem.k = matmul.k();
  problem.aRowStride = matmul.a_row_stride();
  problem.aColumnStride = matmul.a_column_stride();
  problem.bRowStride = matmul.b_row_stride();
  problem.bColumnStride = matmul.b_column_stride();
  problem.cRowStride = matmul.c_row_stride();
  problem.cColumnStride = matmul.c_column_stride();
  problem.batchDims = matmul.batch() ? static_cast<int>(matmul.batch()->size()) : 0;
  for (int i = 0; i < problem.batchDims; ++i) {
    const plan::BatchDimension &from = *matmul.batch()->Get(i);
    problem.batch[i] = {from.extent(), from.a_stride(), from.b_stride(), from.c_stride()};
  }
  problem.accumulate = matmul.accumulate();
  problem.triangle = static_cast<GemmTriangle>(matmul.triangle());
  return problem;
}

} // namespace tapeout::rt
