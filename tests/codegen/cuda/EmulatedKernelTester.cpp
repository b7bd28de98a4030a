// The tester of kernels for the target cuda: on the emulator, with threads and blocks in both orders.
#include "ir/plan/Plan.h"
#include "ir/tape/Tape.h"
#include "tests/codegen/KernelTester.h"
#include "tests/codegen/cuda/EmulatedKernels.h"

#include "mlir/Parser/Parser.h"

namespace tapeout::codegen {

struct KernelTester::Compiled {
  std::unique_ptr<EmulatedKernels> kernels;
};

KernelTester::KernelTester(const std::string &kernels, unsigned) : compiled_(std::make_unique<Compiled>()) {
  mlir::MLIRContext context;
  context.loadDialect<tape::TapeDialect, plan::PlanDialect>();
  mlir::ScopedDiagnosticHandler handler(&context, [&](mlir::Diagnostic &diagnostic) {
    messages_ += diagnostic.str() + "\n";
    return mlir::success();
  });
  if (auto module = mlir::parseSourceString<mlir::ModuleOp>(kernels, &context))
    compiled_->kernels = EmulatedKernels::compile(*module);
}

KernelTester::~KernelTester() = default;

bool KernelTester::loaded() const { return compiled_->kernels != nullptr; }

uint64_t KernelTester::units(const std::string &symbol) const {
  const CudaKernel *kernel = compiled_->kernels->find(symbol);
  return kernel ? kernel->blocks : 0;
}

std::vector<Tensor> KernelTester::run(const std::string &symbol, const std::vector<Tensor> &operands,
                                      const std::vector<Tensor> &results, const std::vector<int> &inPlace) {
  const CudaKernel *kernel = compiled_->kernels->find(symbol);
  EXPECT_TRUE(kernel) << symbol;
  if (!kernel)
    return {};
  EXPECT_EQ(kernel->argumentCount, operands.size() + results.size());
  EXPECT_EQ(kernel->resultCount, results.size());
  std::vector<Tensor> first;
  for (bool backwards : {false, true}) {
    std::vector<Tensor> tensors;
    for (const Tensor &operand : operands)
      tensors.push_back(operand.clone());
    for (size_t i = 0; i < results.size(); ++i)
      tensors.push_back(i < inPlace.size() && inPlace[i] >= 0 ? tensors[inPlace[i]] : results[i].clone());
    std::vector<void *> pointers;
    std::vector<size_t> sizes;
    for (const Tensor &tensor : tensors) {
      pointers.push_back(tensor.data());
      sizes.push_back(tensor.size());
    }
    EXPECT_EQ(compiled_->kernels->run(*kernel, pointers, sizes, backwards), "") << symbol;
    for (const Tensor &tensor : tensors)
      EXPECT_TRUE(tensor.guardsIntact()) << symbol;
    std::vector<Tensor> outputs(tensors.begin() + operands.size(), tensors.end());
    if (first.empty())
      first = outputs;
    for (size_t i = 0; i < outputs.size(); ++i)
      EXPECT_TRUE(outputs[i].sameBits(first[i])) << symbol << " result " << i << ": the order of threads matters";
  }
  return first;
}

} // namespace tapeout::codegen
