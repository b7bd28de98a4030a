#include "codegen/cuda/Assembler.h"

#include "codegen/cuda/NvJitLink.h"
#include "runtime/base/AtomicFile.h"

#include "llvm/ADT/ScopeExit.h"
#include "llvm/ADT/SmallString.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Program.h"

#include <cstdlib>

namespace tapeout::codegen {
namespace {

constexpr size_t kMaxCubin = size_t(1) << 30, kMaxMessage = 1 << 20;

class Ptxas : public Assembler {
public:
  static std::unique_ptr<Assembler> find() {
    std::vector<std::string> folders;
    if (const char *home = std::getenv("CUDA_HOME"))
      folders.push_back(std::string(home) + "/bin");
    folders.push_back("/usr/local/cuda/bin");
    std::vector<llvm::StringRef> places(folders.begin(), folders.end());
    auto program = llvm::sys::findProgramByName("ptxas", places);
    if (!program)
      program = llvm::sys::findProgramByName("ptxas");
    if (!program)
      return nullptr;
    std::unique_ptr<Ptxas> ptxas(new Ptxas(*program));
    Result<std::string> version = ptxas->run({"--version"});
    if (!version.isOk())
      return nullptr;
    ptxas->name_ = "ptxas " + *version;
    return ptxas;
  }

  std::string name() const override { return name_; }
  bool needsRegisterLimit() const override { return false; }

  Result<std::string> assemble(const std::string &ptx, const std::string &architecture) override {
    llvm::SmallString<128> folder;
    if (llvm::sys::fs::createUniqueDirectory("tapeout-ptxas", folder))
      return noTemporaryFile();
    auto cleanUp = llvm::make_scope_exit([&] { llvm::sys::fs::remove_directories(folder); });
    std::string source = (folder + "/kernels.ptx").str(), cubin = (folder + "/kernels.cubin").str();
    TAPEOUT_RETURN_IF_ERROR(writeFile(source, ptx));
    Result<std::string> output = run({"-O3", "-arch=" + architecture, source, "-o", cubin});
    return output.isOk() ? readFile(cubin, kMaxCubin) : output;
  }

private:
  explicit Ptxas(std::string program) : program_(std::move(program)) {}

  static Status noTemporaryFile() {
    return Status::error(ExitCode::Failed, "no temporary file can be made to assemble the kernels; set TMPDIR to a writable folder");
  }

  /// What it prints.
  Result<std::string> run(const std::vector<std::string> &options) {
    llvm::SmallString<128> output;
    if (llvm::sys::fs::createTemporaryFile("tapeout-ptxas", "txt", output))
      return noTemporaryFile();
    auto cleanUp = llvm::make_scope_exit([&] { llvm::sys::fs::remove(output); });
    std::vector<llvm::StringRef> arguments{program_};
    arguments.insert(arguments.end(), options.begin(), options.end());
    std::optional<llvm::StringRef> redirects[] = {llvm::StringRef(""), output.str(), output.str()};
    std::string error;
    int code = llvm::sys::ExecuteAndWait(program_, arguments, std::nullopt, redirects, 0, 0, &error);
    Result<std::string> text = readFile(output.str().str(), kMaxMessage);
    if (code == 0 && text.isOk())
      return text;
    return Status::error(ExitCode::Failed, program_ + " cannot assemble the kernels: " + error + (text.isOk() ? *text : "") +
                                               "; set CUDA_HOME to CUDA 12.3 or later");
  }

  std::string program_, name_;
};

} // namespace

std::unique_ptr<Assembler> findAssembler() {
  if (std::unique_ptr<Assembler> ptxas = Ptxas::find())
    return ptxas;
  return findNvJitLink();
}

} // namespace tapeout::codegen
