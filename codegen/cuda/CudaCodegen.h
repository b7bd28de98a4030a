// Turns the kernels of a plan into modules for NVIDIA GPUs. Needs neither a GPU nor NVIDIA's toolkit: where no assembler
// is found, the driver of the machine that trains compiles the PTX.
//
// A kernel `k` becomes `.entry k(pointer of each argument)`, operands first, or `.entry k(pointer to a device array of
// them)` (table GpuKernel of runtime/plan.fbs). A kernel written by hand may take tensor maps behind the pointers. All
// units are one launch.
//
// Arguments are dense row-major buffers, aligned to 16 bytes. A result may be the very buffer of an operand only where
// the plan launches the kernel so; otherwise results overlap nothing.
// Elementwise f32 arithmetic gives the bits of the target cpu: IEEE rounding, denormals, no contraction, and the same
// exp, log, tanh and erf; but kernels whose results have 16 bits use the GPU's own exp and division (ApproximateMath.h).
// The order of each sum depends on shapes only.
#pragma once

#include "codegen/TensorMap.h"

#include "mlir/IR/BuiltinOps.h"

#include <cstdint>
#include <string>
#include <vector>

namespace tapeout::codegen {

struct CudaOptions {
  std::vector<unsigned> architectures = {90}; // compute capabilities: 90 is sm_90
  unsigned threads = 1;                       // that compile
  bool assemble = true;                       // false: PTX only
  std::string cacheDirectory;                 // of assembled modules; empty: none
  std::string dumpDirectory;                  // not empty: kernels-<part>.ll and .ptx go there
};

struct CudaKernel {
  std::string symbol;
  uint32_t module;        // index into CudaModule::modules
  uint32_t blocks;
  uint32_t threads;       // per block
  uint32_t sharedBytes;   // dynamic shared memory of a block
  bool argumentTable;
  uint32_t argumentCount; // results included
  uint32_t resultCount;
  std::vector<TensorMap> tensorMaps = {};
};

struct CudaCubin {
  unsigned architecture;
  std::string bytes; // an ELF file
};

struct CudaKernels {
  std::string ptx; // for the lowest of the architectures; empty: the cubins are all that runs
  std::vector<CudaCubin> cubins; // one for each architecture, or none
};

struct CudaModule {
  std::vector<CudaKernel> kernels; // of the plan.kernel ops
  std::vector<CudaKernels> modules;
  std::string assembler; // what made the cubins: "ptxas", "nvJitLink" or "none"
};

/// Compiles every plan.kernel of the module. Errors are reported on the kernel, or on the op in it that has no form on
/// this target.
mlir::FailureOr<CudaModule> compileCudaKernels(mlir::ModuleOp planModule, const CudaOptions &options = {});

} // namespace tapeout::codegen
