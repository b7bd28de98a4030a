// Kernels for the target cuda, compiled for the processor from their LLVM IR, on the emulator of GPU threads.
#pragma once

#include "codegen/cuda/CudaCodegen.h"

#include <memory>
#include <set>

namespace llvm::orc {
class LLJIT;
}

namespace tapeout::codegen {

class EmulatedKernels {
public:
  /// All plan.kernel ops of the module. Null, with a diagnostic, where one cannot be compiled.
  static std::unique_ptr<EmulatedKernels> compile(mlir::ModuleOp plan);
  ~EmulatedKernels();

  const std::vector<CudaKernel> &kernels() const { return kernels_; }
  const CudaKernel *find(const std::string &symbol) const; // null: none
  /// Runs all threads on these arguments, of `sizes` bytes. Returns what went wrong, or "". With TAPEOUT_KERNEL_RECORD set to
  /// a file, writes a run forwards down there, to be repeated on a GPU (gpu/KernelCheck.cpp), but for kernels with functions
  /// that the GPU approximates.
  std::string run(const CudaKernel &kernel, llvm::ArrayRef<void *> arguments, llvm::ArrayRef<size_t> sizes, bool backwards);

private:
  EmulatedKernels() = default;

  std::vector<CudaKernel> kernels_;
  std::set<std::string> approximate_; // kernels
  std::string ptx_;                   // where runs are recorded
  std::unique_ptr<llvm::orc::LLJIT> jit_;
};

} // namespace tapeout::codegen
