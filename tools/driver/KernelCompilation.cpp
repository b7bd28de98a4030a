#include "tools/driver/KernelCompilation.h"

#include "codegen/cpu/CpuCodegen.h"
#include "codegen/cuda/CudaCodegen.h"
#include "ir/plan/Plan.h"

#include <cstdlib>

using namespace mlir;

namespace tapeout::driver {
namespace {

// What library calls may use that bring no scratch memory; NVIDIA recommends as much for cuBLASLt on its Hopper GPUs.
constexpr uint64_t kWorkspace = uint64_t(32) << 20;

/// $XDG_CACHE_HOME/tapeout, by default ~/.cache/tapeout; empty: nowhere.
std::string cacheDirectory() {
  if (const char *cache = std::getenv("XDG_CACHE_HOME"); cache && *cache)
    return std::string(cache) + "/tapeout";
  if (const char *home = std::getenv("HOME"); home && *home)
    return std::string(home) + "/.cache/tapeout";
  return "";
}

FailureOr<CompiledKernels> compileForCpu(ModuleOp plan, const CompileOptions &options) {
  codegen::CpuOptions cpu;
  cpu.threads = options.threads;
  auto compiled = codegen::compileCpuKernels(plan, cpu);
  if (failed(compiled))
    return failure();
  CompiledKernels result;
  result.sharedObject = std::move(compiled->sharedObject);
  for (const codegen::CompiledKernel &kernel : compiled->kernels)
    result.records.push_back({kernel.symbol, kernel.units, kernel.grain, std::nullopt});
  return result;
}

FailureOr<CompiledKernels> compileForCuda(ModuleOp plan, const CompileOptions &options) {
  codegen::CudaOptions cuda;
  cuda.architectures = options.target.architectures;
  cuda.threads = options.threads;
  cuda.cacheDirectory = cacheDirectory();
  cuda.dumpDirectory = options.saveIr;
  auto compiled = codegen::compileCudaKernels(plan, cuda);
  if (failed(compiled))
    return failure();
  CompiledKernels result;
  result.assembler = compiled->assembler;
  result.workspaceBytes = kWorkspace;
  for (const codegen::CudaKernel &kernel : compiled->kernels) {
    codegen::GpuLaunch launch{kernel.module, kernel.blocks, kernel.threads, kernel.sharedBytes, kernel.argumentTable,
                              kernel.tensorMaps};
    result.records.push_back({kernel.symbol, kernel.blocks, 1, launch});
  }
  for (codegen::CudaKernels &module : compiled->modules) {
    codegen::ModuleRecord &record = result.modules.emplace_back();
    record.ptx = std::move(module.ptx);
    for (codegen::CudaCubin &cubin : module.cubins)
      record.cubins.push_back({cubin.architecture, std::move(cubin.bytes)});
  }
  return result;
}

} // namespace

FailureOr<CompiledKernels> compileKernels(ModuleOp plan, const CompileOptions &options) {
  return options.target.name == "cuda" ? compileForCuda(plan, options) : compileForCpu(plan, options);
}

} // namespace tapeout::driver
