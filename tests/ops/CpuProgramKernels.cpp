#include "codegen/cpu/CpuCodegen.h"
#include "runtime/device/cpu/KernelLibrary.h"
#include "tests/ops/ProgramKernels.h"

namespace tapeout::ops {
namespace {

class CpuProgramKernels : public ProgramKernels {
public:
  CpuProgramKernels(codegen::CpuModule module, std::unique_ptr<rt::KernelLibrary> library)
      : module_(std::move(module)), library_(std::move(library)) {}

  bool run(size_t number, llvm::ArrayRef<void *> arguments, llvm::ArrayRef<size_t>) override {
    const codegen::CompiledKernel &kernel = module_.kernels[number];
    auto function = library_->resolve(kernel.symbol, rt::CpuIsa::Avx2);
    if (!function.isOk() || kernel.argumentCount != arguments.size())
      return false;
    (*function)(arguments.data(), 0, kernel.units);
    return true;
  }

private:
  codegen::CpuModule module_;
  std::unique_ptr<rt::KernelLibrary> library_;
};

} // namespace

const char *ProgramKernels::target() { return "cpu"; }

std::unique_ptr<ProgramKernels> ProgramKernels::compile(mlir::ModuleOp plan) {
  auto compiled = codegen::compileCpuKernels(plan);
  if (failed(compiled))
    return nullptr;
  auto bytes = reinterpret_cast<const uint8_t *>(compiled->sharedObject.data());
  auto library = rt::KernelLibrary::load({bytes, compiled->sharedObject.size()});
  if (!library.isOk())
    return nullptr;
  return std::make_unique<CpuProgramKernels>(std::move(*compiled), std::move(*library));
}

} // namespace tapeout::ops
