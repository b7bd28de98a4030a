// Turns the kernels of a plan into an x86-64 shared object.
//
// A kernel `k` becomes `void k(void *const *arguments, int64_t begin, int64_t end)` (table Kernel of runtime/plan.fbs)
// in two versions, `k_avx2` (x86-64-v3) and `k_avx512` (x86-64-v4), compiled from one LLVM function: vectors of 16
// lanes, no contraction, fma only where a body says so. Both give the same bits, for every division of the units.
//
// Arguments are dense row-major buffers of f32, f64, i32, i64 and i1 (one byte, 0 or 1), aligned to 64 bytes. A result
// may be the very buffer of an operand of the same element size that the kernel reads element by element, or row by row;
// otherwise results overlap nothing.
// exp, log, tanh and erf of f32 are computed here (MathExpansion.h); functions of f64 call the C library.
#pragma once

#include "mlir/IR/BuiltinOps.h"

#include <cstdint>
#include <string>
#include <vector>

namespace tapeout::codegen {

struct CpuOptions {
  unsigned threads = 1;      // that compile
  std::string dumpDirectory; // not empty: kernels-<thread>.mlir, .ll and kernels.so go there
};

struct CompiledKernel {
  std::string symbol;
  uint64_t units;         // pieces of work, independent of each other
  uint64_t grain;         // fewest units worth handing to a second thread
  uint32_t argumentCount; // results included
  uint32_t resultCount;
};

struct CpuModule {
  std::vector<CompiledKernel> kernels; // in the order of the plan.kernel ops
  std::string sharedObject;            // bytes of an ELF file
};

/// Compiles every plan.kernel of the module. Not to be called from two threads at once: the linker is one per process.
/// Errors are reported on the kernel, or on the op in it that has no form on this target.
mlir::FailureOr<CpuModule> compileCpuKernels(mlir::ModuleOp planModule, const CpuOptions &options = {});

} // namespace tapeout::codegen
