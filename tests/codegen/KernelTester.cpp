#include "tests/codegen/KernelTester.h"

#include "codegen/cpu/CpuCodegen.h"
#include "codegen/cpu/KernelBuilder.h"
#include "codegen/cpu/LowerToLlvm.h"
#include "codegen/cpu/MathExpansion.h"
#include "codegen/cpu/SharedObject.h"
#include "ir/plan/Plan.h"
#include "ir/tape/Tape.h"

#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Parser/Parser.h"

#include <dlfcn.h>
#include <sys/mman.h>
#include <unistd.h>

namespace tapeout::codegen {

KernelTester::KernelTester(const std::string &kernels, unsigned threads) {
  mlir::MLIRContext context;
  context.loadDialect<tape::TapeDialect, plan::PlanDialect>();
  mlir::ScopedDiagnosticHandler handler(&context, [&](mlir::Diagnostic &diagnostic) {
    messages_ += diagnostic.str() + "\n";
    return mlir::success();
  });
  auto module = mlir::parseSourceString<mlir::ModuleOp>(kernels, &context);
  CpuOptions options;
  options.threads = threads;
  if (!module)
    return;
  mlir::FailureOr<CpuModule> compiled = compileCpuKernels(*module, options);
  if (failed(compiled))
    return;
  kernels_ = std::move(compiled->kernels);
  load(compiled->sharedObject);
}

void KernelTester::load(const std::string &sharedObject) {
  file_ = memfd_create("kernels", 0);
  if (write(file_, sharedObject.data(), sharedObject.size()) > 0)
    library_ = dlopen(("/proc/self/fd/" + std::to_string(file_)).c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!library_)
    messages_ += dlerror();
}

KernelTester::~KernelTester() {
  if (library_)
    dlclose(library_);
  if (file_ >= 0)
    close(file_);
}

uint64_t KernelTester::units(const std::string &symbol) const {
  const CompiledKernel *kernel = find(symbol);
  return kernel ? kernel->units : 0;
}

const CompiledKernel *KernelTester::find(const std::string &symbol) const {
  for (const CompiledKernel &kernel : kernels_)
    if (kernel.symbol == symbol)
      return &kernel;
  return nullptr;
}

std::vector<Tensor> KernelTester::run(const std::string &symbol, const std::vector<Tensor> &operands,
                                      const std::vector<Tensor> &results, const std::vector<int> &inPlace) {
  const CompiledKernel *kernel = find(symbol);
  EXPECT_TRUE(kernel) << symbol;
  if (!kernel)
    return {};
  EXPECT_EQ(kernel->argumentCount, operands.size() + results.size());
  EXPECT_EQ(kernel->resultCount, results.size());
  std::vector<Tensor> first;
  for (const char *version : {"_avx2", "_avx512"}) {
    if (version[4] == '5' && !__builtin_cpu_supports("avx512vl"))
      continue;
    auto function =
        reinterpret_cast<void (*)(void *const *, int64_t, int64_t)>(dlsym(library_, (symbol + version).c_str()));
    EXPECT_TRUE(function) << symbol << version;
    if (!function)
      return {};
    for (int division = 0; division < 3; ++division) {
      std::vector<Tensor> tensors;
      for (const Tensor &operand : operands)
        tensors.push_back(operand.clone());
      for (size_t i = 0; i < results.size(); ++i)
        tensors.push_back(i < inPlace.size() && inPlace[i] >= 0 ? tensors[inPlace[i]] : results[i].clone());
      std::vector<void *> pointers;
      for (const Tensor &tensor : tensors)
        pointers.push_back(tensor.data());
      int64_t units = kernel->units, pieces = division == 0 ? 1 : division == 1 ? std::min<int64_t>(3, units) : units;
      for (int64_t piece = pieces; piece-- > 0;)
        function(pointers.data(), units * piece / pieces, units * (piece + 1) / pieces);
      for (const Tensor &tensor : tensors)
        EXPECT_TRUE(tensor.guardsIntact()) << symbol << version;
      std::vector<Tensor> outputs(tensors.begin() + operands.size(), tensors.end());
      if (first.empty())
        first = outputs;
      for (size_t i = 0; i < outputs.size(); ++i)
        EXPECT_TRUE(outputs[i].sameBits(first[i])) << symbol << version << " result " << i << " division " << division;
    }
  }
  return first;
}

std::vector<float> runErf(const std::vector<float> &inputs) {
  mlir::MLIRContext context;
  loadCodegenDialects(context);
  mlir::OpBuilder builder(&context);
  mlir::Location loc = builder.getUnknownLoc();
  std::vector<mlir::OwningOpRef<mlir::ModuleOp>> modules;
  modules.push_back(mlir::ModuleOp::create(loc));
  builder.setInsertionPointToEnd(modules[0]->getBody());
  mlir::Block *entry = createKernelFunction(builder, loc, "erf");
  builder.setInsertionPointToStart(entry);

  KernelBuilder kernel(builder, loc);
  mlir::Value from = kernel.loadPointer(entry->getArgument(0), kernel.integer(0));
  mlir::Value to = kernel.loadPointer(entry->getArgument(0), kernel.integer(1));
  kernel.vectors(inputs.size(), 16, [&](mlir::Value i, Lanes lanes) {
    mlir::Value x = kernel.load(from, builder.getF32Type(), i, 1, lanes);
    kernel.store(to, builder.getF32Type(), i, builder.create<mlir::math::ErfOp>(loc, x), lanes);
  });
  finishKernelFunction(builder, entry);
  EXPECT_TRUE(succeeded(expandMath(entry->getParentOp())));

  KernelTester tester;
  mlir::FailureOr<std::string> sharedObject = makeSharedObject(modules, CpuOptions{});
  EXPECT_TRUE(succeeded(sharedObject));
  tester.load(*sharedObject);
  tester.kernels_.push_back({"erf", 1, 1, 2, 1});
  return tester.run("erf", {Tensor::of(inputs)}, {Tensor::empty<float>(inputs.size())})[0].values<float>();
}

} // namespace tapeout::codegen
