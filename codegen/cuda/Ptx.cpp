#include "codegen/cuda/Ptx.h"

#include "codegen/kernel/LlvmPasses.h"

#include "llvm/IR/Constants.h"
#include "llvm/IR/LegacyPassManager.h"
#include "llvm/IR/Module.h"
#include "llvm/MC/TargetRegistry.h"
#include "llvm/Support/raw_ostream.h"
#include "llvm/Target/TargetMachine.h"

#include <mutex>

extern "C" {
void LLVMInitializeNVPTXTargetInfo();
void LLVMInitializeNVPTXTarget();
void LLVMInitializeNVPTXTargetMC();
void LLVMInitializeNVPTXAsmPrinter();
}

namespace tapeout::codegen {
namespace {

constexpr llvm::StringLiteral kTriple = "nvptx64-nvidia-cuda";
constexpr llvm::StringLiteral kFeatures = "+ptx83"; // of CUDA 12.3, the newest that LLVM 19 writes without gaps
// A thread has one lane: vectors are only for memory. What they compute is taken apart first, so that equal lanes are
// computed once.
constexpr llvm::StringLiteral kPipeline =
    "function(scalarizer,early-cse,instcombine<no-verify-fixpoint>,simplifycfg,loop-mssa(loop-rotate,licm),early-cse<memssa>,"
    "instcombine<no-verify-fixpoint>,simplifycfg,dce)";

std::unique_ptr<llvm::TargetMachine> makeTargetMachine(const std::string &architecture) {
  static std::once_flag once;
  std::call_once(once, [] {
    LLVMInitializeNVPTXTargetInfo();
    LLVMInitializeNVPTXTarget();
    LLVMInitializeNVPTXTargetMC();
    LLVMInitializeNVPTXAsmPrinter();
  });
  std::string error;
  const llvm::Target *target = llvm::TargetRegistry::lookupTarget(kTriple.str(), error);
  llvm::TargetOptions options;
  options.AllowFPOpFusion = llvm::FPOpFusion::Strict; // the bits of the target cpu
  return std::unique_ptr<llvm::TargetMachine>(
      target->createTargetMachine(kTriple, architecture, kFeatures, options, llvm::Reloc::PIC_,
                                  std::nullopt, llvm::CodeGenOptLevel::Aggressive));
}

llvm::Metadata *metadataOf(llvm::LLVMContext &context, unsigned number) {
  return llvm::ConstantAsMetadata::get(llvm::ConstantInt::get(llvm::Type::getInt32Ty(context), number));
}

void annotate(llvm::Function &function, llvm::StringRef name, llvm::Metadata *value) {
  llvm::LLVMContext &context = function.getContext();
  llvm::Metadata *parts[] = {llvm::ValueAsMetadata::get(&function), llvm::MDString::get(context, name), value};
  function.getParent()->getOrInsertNamedMetadata("nvvm.annotations")->addOperand(llvm::MDNode::get(context, parts));
}
void annotate(llvm::Function &function, llvm::StringRef name, unsigned value) {
  annotate(function, name, metadataOf(function.getContext(), value));
}

/// Parameters that are passed by value stay where the launch put them: their addresses are not those of copies.
void keepInPlace(llvm::Function &function) {
  llvm::SmallVector<llvm::Metadata *> numbers; // from 1
  for (const llvm::Argument &parameter : function.args())
    if (parameter.hasByValAttr())
      numbers.push_back(metadataOf(function.getContext(), parameter.getArgNo() + 1));
  if (!numbers.empty())
    annotate(function, "grid_constant", llvm::MDNode::get(function.getContext(), numbers));
}

void makeKernels(llvm::Module &module, const LaunchBounds &bounds) {
  constexpr unsigned kRegisters = 65536, kPerThread = 64; // of a multiprocessor, of a thread
  for (const auto &[symbol, threads, resident] : bounds.functions) {
    llvm::Function *function = module.getFunction(symbol);
    function->setCallingConv(llvm::CallingConv::PTX_Kernel);
    function->addFnAttr(llvm::Attribute::NoUnwind);
    annotate(*function, "kernel", 1);
    annotate(*function, "maxntidx", threads);
    keepInPlace(*function);
    unsigned blocks = bounds.limitRegisters ? std::max(resident, kRegisters / (kPerThread * threads)) : resident;
    if (blocks > 0)
      annotate(*function, "minctasm", blocks);
  }
}

} // namespace

std::string emitPtx(llvm::Module &module, const std::string &architecture, const LaunchBounds &bounds) {
  std::unique_ptr<llvm::TargetMachine> machine = makeTargetMachine(architecture);
  module.setTargetTriple(kTriple);
  module.setDataLayout(machine->createDataLayout());
  makeKernels(module, bounds);
  runLlvmPasses(module, *machine, kPipeline);
  llvm::SmallVector<char, 0> ptx;
  llvm::raw_svector_ostream stream(ptx);
  llvm::legacy::PassManager backend;
  machine->addPassesToEmitFile(backend, stream, nullptr, llvm::CodeGenFileType::AssemblyFile);
  backend.run(module);
  return std::string(ptx.begin(), ptx.end());
}

} // namespace tapeout::codegen
