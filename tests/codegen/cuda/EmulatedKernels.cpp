#include "tests/codegen/cuda/EmulatedKernels.h"

#include "codegen/cuda/CudaKernelBuilder.h"
#include "codegen/cuda/KernelFunctions.h"
#include "codegen/cuda/Ptx.h"
#include "codegen/kernel/LowerToLlvm.h"
#include "tests/codegen/cuda/GpuEmulator.h"
#include "tests/codegen/gpu/KernelRecord.h"

#include "llvm/ExecutionEngine/Orc/LLJIT.h"
#include "llvm/IR/IRBuilder.h"
#include "llvm/IR/Module.h"
#include "llvm/Support/TargetSelect.h"
#include "llvm/Transforms/Utils/Cloning.h"

#include <cstdlib>
#include <map>
#include <set>

using namespace mlir;

namespace tapeout::codegen {
namespace {

/// Shared memory becomes ordinary memory: blocks run one after the other. That of a size which the launch asks for gets it.
void replaceSharedMemory(llvm::Module &module, ArrayRef<CudaKernel> kernels) {
  std::map<std::string, uint64_t> dynamicBytes;
  for (const CudaKernel &kernel : kernels)
    dynamicBytes[dynamicSharedName(kernel.symbol)] = kernel.sharedBytes;
  for (llvm::GlobalVariable &global : llvm::make_early_inc_range(module.globals())) {
    if (global.getAddressSpace() == 0)
      continue;
    llvm::Type *type = global.getValueType();
    if (auto dynamic = dynamicBytes.find(global.getName().str()); dynamic != dynamicBytes.end())
      type = llvm::ArrayType::get(llvm::Type::getInt8Ty(module.getContext()), dynamic->second);
    auto *ordinary = new llvm::GlobalVariable(module, type, false, llvm::GlobalValue::InternalLinkage,
                                              llvm::Constant::getNullValue(type), global.getName() + "_ordinary");
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

/// Declares functions of the emulator in place of NVPTX's intrinsics. False: one is not known.
bool replaceIntrinsics(llvm::Module &module, llvm::orc::LLJIT &jit, llvm::orc::SymbolMap &symbols) {
  for (llvm::Function &function : module.functions()) {
    if (!function.getName().starts_with("llvm.nvvm."))
      continue;
    void *address = emulatedIntrinsic(function.getName().str());
    if (!address)
      return false;
    llvm::Function *emulated = llvm::Function::Create(function.getFunctionType(), llvm::GlobalValue::ExternalLinkage,
                                                      "emulated." + function.getName(), module);
    function.replaceAllUsesWith(emulated);
    symbols[jit.mangleAndIntern(emulated->getName())] = {llvm::orc::ExecutorAddr::fromPtr(address),
                                                         llvm::JITSymbolFlags::Exported};
  }
  return true;
}

/// Whether the kernel calls what the GPU and the emulator round differently.
bool isApproximate(const llvm::Function &function) {
  for (const llvm::BasicBlock &block : function)
    for (const llvm::Instruction &instruction : block)
      if (auto *call = llvm::dyn_cast<llvm::CallInst>(&instruction))
        if (call->getCalledFunction() && call->getCalledFunction()->getName().contains(".approx."))
          return true;
  return false;
}

const char *recordPath() { return std::getenv("TAPEOUT_KERNEL_RECORD"); }

} // namespace

EmulatedKernels::~EmulatedKernels() = default;

std::unique_ptr<EmulatedKernels> EmulatedKernels::compile(ModuleOp plan) {
  loadCodegenDialects(*plan.getContext());
  std::vector<KernelFunctions> parts(1);
  parts[0].module = ModuleOp::create(plan.getLoc());
  auto built = buildCudaFunctions(plan, parts);
  if (failed(built))
    return nullptr;
  auto context = std::make_unique<llvm::LLVMContext>();
  auto lowered = lowerToLlvm(*parts[0].module, *context);
  if (failed(lowered))
    return nullptr;
  std::unique_ptr<llvm::Module> module = std::move(*lowered);
  std::string ptx;
  if (recordPath())
    ptx = emitPtx(*llvm::CloneModule(*module), "sm_90", {parts[0].bounds, /*limitRegisters=*/false});

  llvm::InitializeNativeTarget();
  llvm::InitializeNativeTargetAsmPrinter();
  std::unique_ptr<EmulatedKernels> result(new EmulatedKernels);
  result->kernels_ = std::move(*built);
  result->ptx_ = std::move(ptx);
  result->jit_ = llvm::cantFail(llvm::orc::LLJITBuilder().create());
  for (const CudaKernel &kernel : result->kernels_)
    if (isApproximate(*module->getFunction(kernel.symbol)))
      result->approximate_.insert(kernel.symbol);
  llvm::orc::SymbolMap symbols;
  if (!replaceIntrinsics(*module, *result->jit_, symbols)) {
    emitError(plan.getLoc(), "a kernel uses an intrinsic that the emulator has not");
    return nullptr;
  }
  replaceSharedMemory(*module, result->kernels_);
  for (const CudaKernel &kernel : result->kernels_)
    addThreadFunction(*module, kernel);
  module->setDataLayout(result->jit_->getDataLayout());
  llvm::cantFail(result->jit_->getMainJITDylib().define(llvm::orc::absoluteSymbols(std::move(symbols))));
  llvm::cantFail(result->jit_->addIRModule(llvm::orc::ThreadSafeModule(std::move(module), std::move(context))));
  return result;
}

const CudaKernel *EmulatedKernels::find(const std::string &symbol) const {
  for (const CudaKernel &kernel : kernels_)
    if (kernel.symbol == symbol)
      return &kernel;
  return nullptr;
}

std::string EmulatedKernels::run(const CudaKernel &kernel, ArrayRef<void *> arguments, ArrayRef<size_t> sizes, bool backwards) {
  auto address = jit_->lookup(kernel.symbol + ".thread");
  if (!address)
    return llvm::toString(address.takeError());
  auto thread = address->toPtr<void(void *const *)>();
  auto contents = [&](size_t i) { return std::string(static_cast<const char *>(arguments[i]), sizes[i]); };
  bool isAlias = std::set<void *>(arguments.begin(), arguments.end()).size() < arguments.size();
  bool isRepeatable = !isAlias && !approximate_.count(kernel.symbol); // the PTX is for launches without aliases
  const char *path = isRepeatable && !backwards ? recordPath() : nullptr;
  std::vector<std::string> before;
  for (size_t i = 0; path && i < arguments.size(); ++i)
    before.push_back(contents(i));
  std::string error = runOnEmulator({kernel.blocks, kernel.threads, backwards}, [&] { thread(arguments.data()); });
  if (!path)
    return error;
  RecordWriter record(path);
  if (!ptx_.empty())
    record << "module" << ptx_;
  ptx_.clear(); // written once
  record << "run" << kernel.symbol << kernel.blocks << kernel.threads << kernel.sharedBytes
         << (kernel.argumentTable ? "table" : "") << arguments.size();
  for (size_t i = 0; i < arguments.size(); ++i)
    record << before[i] << contents(i);
  return error;
}

} // namespace tapeout::codegen
