#include "codegen/cpu/SharedObject.h"

#include "codegen/kernel/LlvmPasses.h"
#include "codegen/kernel/LowerToLlvm.h"

#include "lld/Common/Driver.h"
#include "llvm/ADT/ScopeExit.h"
#include "llvm/IR/LLVMContext.h"
#include "llvm/IR/LegacyPassManager.h"
#include "llvm/IR/Module.h"
#include "llvm/MC/TargetRegistry.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"
#include "llvm/Target/TargetMachine.h"
#include "llvm/Transforms/Utils/Cloning.h"

#include <atomic>
#include <thread>

LLD_HAS_DRIVER(elf)
extern "C" {
void LLVMInitializeX86TargetInfo();
void LLVMInitializeX86Target();
void LLVMInitializeX86TargetMC();
void LLVMInitializeX86AsmPrinter();
}

using namespace mlir;

namespace tapeout::codegen {
namespace {

constexpr llvm::StringLiteral kTriple = "x86_64-unknown-linux-gnu";
constexpr llvm::StringLiteral kBaseCpu = "x86-64-v3", kWideCpu = "x86-64-v4";
// The vectors are there already: loop and SLP vectorisers would only cost compile time.
constexpr llvm::StringLiteral kPipeline =
    "function(early-cse,instcombine<no-verify-fixpoint>,simplifycfg,loop-mssa(loop-rotate,licm),early-cse,"
    "instcombine<no-verify-fixpoint>,simplifycfg)";

std::unique_ptr<llvm::TargetMachine> makeTargetMachine() {
  std::string error;
  const llvm::Target *target = llvm::TargetRegistry::lookupTarget(kTriple.str(), error);
  llvm::TargetOptions options;
  options.AllowFPOpFusion = llvm::FPOpFusion::Strict; // else the two versions could differ in a bit
  return std::unique_ptr<llvm::TargetMachine>(target->createTargetMachine(
      kTriple, kBaseCpu, "", options, llvm::Reloc::PIC_, std::nullopt, llvm::CodeGenOptLevel::Default));
}

// Optimised once for both versions, so that they hold the same operations.
void makeVersions(llvm::Module &module) {
  SmallVector<llvm::Function *> kernels;
  for (llvm::Function &function : module)
    if (!function.isDeclaration())
      kernels.push_back(&function);
  for (llvm::Function *kernel : kernels) {
    llvm::ValueToValueMapTy map;
    llvm::Function *wide = llvm::CloneFunction(kernel, map);
    llvm::StringRef symbol = kernel->getName();
    symbol.consume_back("_avx2");
    wide->setName(symbol + "_avx512");
    wide->addFnAttr("target-cpu", kWideCpu);
    wide->addFnAttr("prefer-vector-width", "512");
  }
}

std::string compile(llvm::Module &module) {
  std::unique_ptr<llvm::TargetMachine> machine = makeTargetMachine();
  module.setTargetTriple(kTriple);
  module.setDataLayout(machine->createDataLayout());
  module.setPICLevel(llvm::PICLevel::BigPIC);
  for (llvm::Function &function : module)
    if (!function.isDeclaration()) {
      function.addFnAttr("target-cpu", kBaseCpu);
      function.addFnAttr(llvm::Attribute::NoUnwind);
    }
  runLlvmPasses(module, *machine, kPipeline);
  makeVersions(module);
  SmallVector<char, 0> object;
  llvm::raw_svector_ostream stream(object);
  llvm::legacy::PassManager backend;
  machine->addPassesToEmitFile(backend, stream, nullptr, llvm::CodeGenFileType::ObjectFile);
  backend.run(module);
  return std::string(object.begin(), object.end());
}

bool writeFile(const Twine &path, llvm::StringRef bytes) {
  std::error_code error;
  llvm::raw_fd_ostream file(path.str(), error);
  if (error)
    return false;
  file << bytes;
  file.close();
  if (!file.has_error())
    return true;
  file.clear_error();
  return false;
}

FailureOr<std::string> link(ArrayRef<std::string> objects, Location loc) {
  SmallString<128> folder;
  if (llvm::sys::fs::createUniqueDirectory("tapeout-link", folder))
    return emitError(loc, "no temporary folder can be made for linking the kernels; set TMPDIR to a writable folder");
  auto cleanUp = llvm::make_scope_exit([&] { llvm::sys::fs::remove_directories(folder); });

  std::string output = (folder + "/kernels.so").str();
  std::vector<std::string> arguments = {
      "ld.lld",           "-shared", "-o",          output,           "-soname", "tapeout-kernels.so",
      "--hash-style=gnu", "-z",      "noexecstack", "--build-id=none"};
  for (auto [i, object] : llvm::enumerate(objects)) {
    arguments.push_back((folder + "/" + Twine(i) + ".o").str());
    if (!writeFile(arguments.back(), object))
      return emitError(loc, "the kernels cannot be written to '") << folder.str() << "' for linking; is the disk full?";
  }
  std::vector<const char *> pointers;
  for (const std::string &argument : arguments)
    pointers.push_back(argument.c_str());
  std::string messages;
  llvm::raw_string_ostream stream(messages);
  lld::Result linked = lld::lldMain(pointers, stream, stream, {{lld::Gnu, &lld::elf::link}});
  auto bytes = llvm::MemoryBuffer::getFile(output);
  if (linked.retCode != 0 || !bytes)
    return emitError(loc, "the kernels cannot be linked: ") << messages;
  return (*bytes)->getBuffer().str();
}

std::string print(const auto &ir) {
  std::string text;
  llvm::raw_string_ostream stream(text);
  stream << ir;
  return text;
}

} // namespace

FailureOr<std::string> makeSharedObject(MutableArrayRef<OwningOpRef<ModuleOp>> parts,
                                        const CpuOptions &options) {
  const std::string &dumpDirectory = options.dumpDirectory;
  LLVMInitializeX86TargetInfo();
  LLVMInitializeX86Target();
  LLVMInitializeX86TargetMC();
  LLVMInitializeX86AsmPrinter();

  std::vector<std::unique_ptr<llvm::LLVMContext>> contexts;
  std::vector<std::unique_ptr<llvm::Module>> modules;
  for (auto [i, part] : llvm::enumerate(parts)) {
    if (!dumpDirectory.empty())
      writeFile(dumpDirectory + "/kernels-" + Twine(i) + ".mlir", print(**part));
    contexts.push_back(std::make_unique<llvm::LLVMContext>());
    FailureOr<std::unique_ptr<llvm::Module>> module = lowerToLlvm(*part, *contexts.back());
    if (failed(module))
      return failure();
    modules.push_back(std::move(*module));
  }

  std::vector<std::string> objects(modules.size());
  std::atomic<size_t> next = 0;
  auto compileSome = [&] {
    for (size_t i; (i = next++) < modules.size();)
      objects[i] = compile(*modules[i]);
  };
  std::vector<std::thread> threads;
  for (unsigned i = 1; i < options.threads; ++i)
    threads.emplace_back(compileSome);
  compileSome();
  for (std::thread &thread : threads)
    thread.join();

  FailureOr<std::string> sharedObject = link(objects, (*parts.front()).getLoc());
  if (!dumpDirectory.empty() && succeeded(sharedObject)) {
    for (auto [i, module] : llvm::enumerate(modules))
      writeFile(dumpDirectory + "/kernels-" + Twine(i) + ".ll", print(*module));
    writeFile(dumpDirectory + "/kernels.so", *sharedObject);
  }
  return sharedObject;
}

} // namespace tapeout::codegen
