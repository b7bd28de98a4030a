// The tester of kernels for the target cuda: their LLVM IR, compiled for the processor, runs on the emulator.
#include "codegen/cuda/KernelFunctions.h"
#include "codegen/kernel/LowerToLlvm.h"
#include "ir/plan/Plan.h"
#include "ir/tape/Tape.h"
#include "tests/codegen/KernelTester.h"
#include "tests/codegen/cuda/GpuEmulator.h"

#include "mlir/Parser/Parser.h"

#include "llvm/ExecutionEngine/Orc/LLJIT.h"
#include "llvm/IR/IRBuilder.h"
#include "llvm/IR/Module.h"
#include "llvm/Support/TargetSelect.h"

namespace tapeout::codegen {
namespace {

/// Shared memory becomes ordinary memory: blocks run one after the other.
void replaceSharedMemory(llvm::Module &module) {
  for (llvm::GlobalVariable &global : llvm::make_early_inc_range(module.globals())) {
    if (global.getAddressSpace() == 0)
      continue;
    auto *ordinary = new llvm::GlobalVariable(module, global.getValueType(), false, llvm::GlobalValue::InternalLinkage,
                                              llvm::Constant::getNullValue(global.getValueType()), global.getName() + "_ordinary");
    ordinary->setAlignment(llvm::Align(64));
    for (llvm::User *user : llvm::make_early_inc_range(global.users())) {
      user->replaceAllUsesWith(ordinary); // every use is a cast to the generic address space
      if (auto *instruction = llvm::dyn_cast<llvm::Instruction>(user))
        instruction->eraseFromParent();
    }
  }
}

/// `void k.thread(void **arguments)` calls k.
void addThreadFunction(llvm::Module &module, const CudaKernel &kernel) {
  llvm::Function *function = module.getFunction(kernel.symbol);
  llvm::IRBuilder<> builder(module.getContext());
  llvm::Type *pointer = builder.getPtrTy();
  auto *thread = llvm::Function::Create(llvm::FunctionType::get(builder.getVoidTy(), {pointer}, false),
                                        llvm::GlobalValue::ExternalLinkage, kernel.symbol + ".thread", module);
  builder.SetInsertPoint(llvm::BasicBlock::Create(module.getContext(), "", thread));
  llvm::SmallVector<llvm::Value *> arguments;
  if (kernel.argumentTable)
    arguments.push_back(thread->getArg(0));
  else
    for (unsigned i = 0; i < kernel.argumentCount; ++i)
      arguments.push_back(builder.CreateLoad(pointer, builder.CreateConstGEP1_64(pointer, thread->getArg(0), i)));
  for (unsigned i = 0; i < function->arg_size(); ++i) // kernels also run in place here, whatever their plan says
    function->removeParamAttr(i, llvm::Attribute::NoAlias);
  builder.CreateCall(function, arguments);
  builder.CreateRetVoid();
}

} // namespace

struct KernelTester::Compiled {
  std::vector<CudaKernel> kernels;
  std::unique_ptr<llvm::orc::LLJIT> jit;

  const CudaKernel *find(const std::string &symbol) const {
    for (const CudaKernel &kernel : kernels)
      if (kernel.symbol == symbol)
        return &kernel;
    return nullptr;
  }

  void compile(std::unique_ptr<llvm::Module> module, std::unique_ptr<llvm::LLVMContext> context) {
    llvm::InitializeNativeTarget();
    llvm::InitializeNativeTargetAsmPrinter();
    auto created = llvm::orc::LLJITBuilder().create();
    jit = llvm::cantFail(std::move(created));
    llvm::orc::SymbolMap symbols;
    for (llvm::Function &function : module->functions()) {
      if (!function.getName().starts_with("llvm.nvvm."))
        continue;
      void *address = emulatedIntrinsic(function.getName().str());
      ASSERT_TRUE(address) << function.getName().str();
      llvm::Function *emulated = llvm::Function::Create(function.getFunctionType(), llvm::GlobalValue::ExternalLinkage,
                                                        "emulated." + function.getName(), *module);
      function.replaceAllUsesWith(emulated);
      symbols[jit->mangleAndIntern(emulated->getName())] = {llvm::orc::ExecutorAddr::fromPtr(address),
                                                            llvm::JITSymbolFlags::Exported};
    }
    replaceSharedMemory(*module);
    for (const CudaKernel &kernel : kernels)
      addThreadFunction(*module, kernel);
    module->setDataLayout(jit->getDataLayout());
    llvm::cantFail(jit->getMainJITDylib().define(llvm::orc::absoluteSymbols(std::move(symbols))));
    llvm::cantFail(jit->addIRModule(llvm::orc::ThreadSafeModule(std::move(module), std::move(context))));
  }
};

KernelTester::KernelTester(const std::string &kernels, unsigned) {
  mlir::MLIRContext context;
  context.loadDialect<tape::TapeDialect, plan::PlanDialect>();
  mlir::ScopedDiagnosticHandler handler(&context, [&](mlir::Diagnostic &diagnostic) {
    messages_ += diagnostic.str() + "\n";
    return mlir::success();
  });
  auto module = mlir::parseSourceString<mlir::ModuleOp>(kernels, &context);
  if (!module)
    return;
  loadCodegenDialects(context);
  std::vector<KernelFunctions> parts(1);
  parts[0].module = mlir::ModuleOp::create(module->getLoc());
  auto built = buildCudaFunctions(*module, parts);
  if (failed(built))
    return;
  auto llvmContext = std::make_unique<llvm::LLVMContext>();
  auto llvmModule = lowerToLlvm(*parts[0].module, *llvmContext);
  if (failed(llvmModule))
    return;
  compiled_ = std::make_unique<Compiled>();
  compiled_->kernels = std::move(*built);
  compiled_->compile(std::move(*llvmModule), std::move(llvmContext));
}

KernelTester::~KernelTester() = default;

bool KernelTester::loaded() const { return compiled_ && compiled_->jit; }

uint64_t KernelTester::units(const std::string &symbol) const {
  const CudaKernel *kernel = compiled_->find(symbol);
  return kernel ? kernel->blocks : 0;
}

std::vector<Tensor> KernelTester::run(const std::string &symbol, const std::vector<Tensor> &operands,
                                      const std::vector<Tensor> &results, const std::vector<int> &inPlace) {
  const CudaKernel *kernel = compiled_->find(symbol);
  EXPECT_TRUE(kernel) << symbol;
  if (!kernel)
    return {};
  EXPECT_EQ(kernel->argumentCount, operands.size() + results.size());
  EXPECT_EQ(kernel->resultCount, results.size());
  auto address = compiled_->jit->lookup(symbol + ".thread");
  EXPECT_TRUE(static_cast<bool>(address)) << llvm::toString(address.takeError());
  auto thread = address->toPtr<void(void *const *)>();

  std::vector<Tensor> first;
  for (bool backwards : {false, true}) {
    std::vector<Tensor> tensors;
    for (const Tensor &operand : operands)
      tensors.push_back(operand.clone());
    for (size_t i = 0; i < results.size(); ++i)
      tensors.push_back(i < inPlace.size() && inPlace[i] >= 0 ? tensors[inPlace[i]] : results[i].clone());
    std::vector<void *> pointers;
    for (const Tensor &tensor : tensors)
      pointers.push_back(tensor.data());
    EXPECT_EQ(runOnEmulator({kernel->blocks, kernel->threads, backwards}, [&] { thread(pointers.data()); }), "") << symbol;
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
