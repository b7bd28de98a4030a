#include "codegen/cuda/CudaCodegen.h"

#include "codegen/cuda/Assembler.h"
#include "codegen/cuda/CubinCache.h"
#include "codegen/cuda/HandWritten.h"
#include "codegen/cuda/KernelFunctions.h"
#include "codegen/cuda/Ptx.h"
#include "codegen/kernel/LowerToLlvm.h"
#include "codegen/kernel/Schedule.h"
#include "ir/plan/Plan.h"
#include "runtime/base/AtomicFile.h"

#include "llvm/IR/LLVMContext.h"
#include "llvm/IR/Module.h"

#include <algorithm>
#include <atomic>
#include <thread>

using namespace mlir;

namespace tapeout::codegen {
namespace {

// Modules that threads compile on their own; their number does not depend on the threads, nor do the bytes that come out.
constexpr size_t kParts = 8;

/// A module on its way from MLIR to machine code.
struct Part {
  LaunchBounds bounds;
  std::unique_ptr<llvm::LLVMContext> context = std::make_unique<llvm::LLVMContext>();
  std::unique_ptr<llvm::Module> module = nullptr;
  bool exact = false; // whether it has instructions of one architecture only: sm_90a
  CudaKernels result;
  Status status;
};

/// What all parts are compiled with.
struct Tools {
  const CudaOptions &options;
  std::unique_ptr<Assembler> assembler; // null: none
  CubinCache cache;

  static std::string nameOf(unsigned architecture, const Part &part) {
    return "sm_" + std::to_string(architecture) + (part.exact ? "a" : "");
  }

  Result<std::string> assemble(const std::string &ptx, const std::string &architecture) const {
    std::string key = CubinCache::keyOf(ptx, architecture, assembler->name());
    if (std::optional<std::string> known = cache.find(key))
      return *known;
    Result<std::string> cubin = assembler->assemble(ptx, architecture);
    if (cubin.isOk())
      cache.add(key, *cubin);
    return cubin;
  }

  void compile(Part &part) const {
    part.bounds.limitRegisters = !part.exact && assembler && assembler->needsRegisterLimit();
    part.result.ptx = emitPtx(*part.module, nameOf(*llvm::min_element(options.architectures), part), part.bounds);
    // Without ptxas, the driver does it: nvJitLink cannot give warpgroups registers of their own.
    if (!assembler || (part.exact && assembler->needsRegisterLimit()))
      return;
    for (unsigned architecture : options.architectures) {
      Result<std::string> cubin = assemble(part.result.ptx, nameOf(architecture, part));
      if (!cubin.isOk()) {
        part.status = cubin.status();
        return;
      }
      part.result.cubins.push_back({architecture, std::move(*cubin)});
    }
  }
};

template <typename Ir> std::string print(const Ir &ir) {
  std::string text;
  llvm::raw_string_ostream stream(text);
  stream << ir;
  return text;
}

LogicalResult dump(const std::string &folder, ArrayRef<Part> parts, Location loc) {
  for (auto [i, part] : llvm::enumerate(parts)) {
    std::string name = folder + "/kernels-" + std::to_string(i);
    for (const auto &[suffix, text] : {std::pair(".ll", print(*part.module)), std::pair(".ptx", part.result.ptx)})
      if (Status written = writeFile(name + suffix, text); !written.isOk())
        return emitError(loc, written.message());
  }
  return success();
}

} // namespace

FailureOr<CudaModule> compileCudaKernels(ModuleOp planModule, const CudaOptions &options) {
  loadCodegenDialects(*planModule.getContext());
  CudaModule result;
  auto isGenerated = [](plan::KernelOp kernel) { return scheduleOf(kernel) != Schedule::HandWritten; };
  size_t generated = llvm::count_if(planModule.getOps<plan::KernelOp>(), isGenerated);
  std::vector<KernelFunctions> functions(std::min(kParts, generated));
  for (KernelFunctions &part : functions)
    part.module = ModuleOp::create(planModule.getLoc());
  FailureOr<std::vector<CudaKernel>> kernels = buildCudaFunctions(planModule, functions);
  if (failed(kernels))
    return failure();
  result.kernels = std::move(*kernels);

  std::vector<Part> parts;
  for (KernelFunctions &built : functions) {
    Part &part = parts.emplace_back();
    part.bounds.functions = std::move(built.bounds);
    FailureOr<std::unique_ptr<llvm::Module>> module = lowerToLlvm(*built.module, *part.context);
    if (failed(module))
      return failure();
    part.module = std::move(*module);
  }
  for (plan::KernelOp kernel : planModule.getOps<plan::KernelOp>()) {
    if (isGenerated(kernel))
      continue;
    Part &part = parts.emplace_back();
    FailureOr<HandWrittenKernel> written = buildHandWritten(kernel, *part.context);
    if (failed(written))
      return failure();
    part.module = std::move(written->module);
    part.bounds.functions = {written->bound};
    part.exact = true;
    result.kernels.push_back(std::move(written->kernel));
    result.kernels.back().module = parts.size() - 1;
  }

  Tools tools{options, options.assemble ? findAssembler() : nullptr, CubinCache(options.cacheDirectory)};
  std::atomic<size_t> next = 0;
  auto compileSome = [&] {
    for (size_t i; (i = next++) < parts.size();)
      tools.compile(parts[i]);
  };
  std::vector<std::thread> threads;
  for (unsigned i = 1; i < options.threads; ++i)
    threads.emplace_back(compileSome);
  compileSome();
  for (std::thread &thread : threads)
    thread.join();
  tools.cache.trim();

  if (!options.dumpDirectory.empty() && failed(dump(options.dumpDirectory, parts, planModule.getLoc())))
    return failure();
  for (Part &part : parts) {
    if (!part.status.isOk())
      return emitError(planModule.getLoc(), part.status.message());
    if (part.exact && !part.result.cubins.empty()) // no other GPU's driver would take it
      part.result.ptx.clear();
    result.modules.push_back(std::move(part.result));
  }
  result.assembler = tools.assembler ? StringRef(tools.assembler->name()).split(' ').first.str() : "none";
  return result;
}

} // namespace tapeout::codegen
