// On the emulator of GPU threads.
#include "tests/codegen/cuda/EmulatedKernels.h"
#include "tests/ops/ProgramKernels.h"

#include "gtest/gtest.h"

namespace tapeout::ops {
namespace {

class CudaProgramKernels : public ProgramKernels {
public:
  explicit CudaProgramKernels(std::unique_ptr<codegen::EmulatedKernels> kernels) : kernels_(std::move(kernels)) {}

  bool run(size_t number, llvm::ArrayRef<void *> arguments, llvm::ArrayRef<size_t> sizes) override {
    const codegen::CudaKernel &kernel = kernels_->kernels()[number];
    if (kernel.argumentCount != arguments.size())
      return false;
    std::string error = kernels_->run(kernel, arguments, sizes, /*backwards=*/number % 2 == 1);
    EXPECT_EQ(error, "") << kernel.symbol;
    return error.empty();
  }

private:
  std::unique_ptr<codegen::EmulatedKernels> kernels_;
};

} // namespace

const char *ProgramKernels::target() { return "cuda"; }

std::unique_ptr<ProgramKernels> ProgramKernels::compile(mlir::ModuleOp plan) {
  auto kernels = codegen::EmulatedKernels::compile(plan);
  return kernels ? std::make_unique<CudaProgramKernels>(std::move(kernels)) : nullptr;
}

} // namespace tapeout::ops
