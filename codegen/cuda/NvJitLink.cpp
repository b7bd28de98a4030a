#include "codegen/cuda/NvJitLink.h"

#include <cstdint>
#include <cstdlib>
#include <dlfcn.h>
#include <vector>

namespace tapeout::codegen {
namespace {

// From nvJitLink.h of CUDA 12 and 13, whose declarations of these agree.
using Handle = struct nvJitLink *;
constexpr int kSuccess = 0, kInputPtx = 2;

class NvJitLink : public Assembler {
public:
  static std::unique_ptr<Assembler> find() {
    std::vector<std::string> folders{""};
    if (const char *home = std::getenv("CUDA_HOME"))
      folders.push_back(std::string(home) + "/lib64/");
    folders.push_back("/usr/local/cuda/lib64/");
    for (const std::string &folder : folders)
      for (const char *name : {"libnvJitLink.so.13", "libnvJitLink.so.12"})
        if (void *library = dlopen((folder + name).c_str(), RTLD_NOW | RTLD_LOCAL)) {
          std::unique_ptr<NvJitLink> found(new NvJitLink);
          if (found->load(library))
            return found;
          dlclose(library);
        }
    return nullptr;
  }

  std::string name() const override { return "nvJitLink " + std::to_string(major_) + "." + std::to_string(minor_); }
  // It compiles PTX as if other code could be linked to it, which costs a third more registers.
  bool needsRegisterLimit() const override { return true; }

  Result<std::string> assemble(const std::string &ptx, const std::string &architecture) override {
    std::string target = "-arch=" + architecture;
    const char *options[] = {target.c_str(), "-O3"};
    Handle handle = nullptr;
    if (create_(&handle, 2, options) != kSuccess)
      return Status::error(ExitCode::Failed, "nvJitLink does not know " + architecture +
                                                 "; choose another architecture or install a newer CUDA");
    Result<std::string> cubin = link(handle, ptx);
    destroy_(&handle);
    return cubin;
  }

private:
  Result<std::string> link(Handle handle, const std::string &ptx) {
    size_t size = 0;
    bool linked = addData_(handle, kInputPtx, ptx.c_str(), ptx.size() + 1, "kernels") == kSuccess &&
                  complete_(handle) == kSuccess && cubinSize_(handle, &size) == kSuccess;
    std::string cubin(size, '\0');
    if (linked && cubin_(handle, cubin.data()) == kSuccess)
      return cubin;
    size_t length = 0;
    std::string log;
    if (errorLogSize_(handle, &length) == kSuccess && length > 0) {
      log.resize(length);
      errorLog_(handle, log.data());
    }
    return Status::error(ExitCode::Failed, "nvJitLink cannot assemble the kernels; install a newer CUDA, or compile without code for this "
                                           "architecture: " + log);
  }

  template <typename Function> bool get(void *library, const char *name, Function *&function) {
    function = reinterpret_cast<Function *>(dlsym(library, name));
    return function != nullptr;
  }
  bool load(void *library) {
    return get(library, "nvJitLinkCreate", create_) && get(library, "nvJitLinkDestroy", destroy_) &&
           get(library, "nvJitLinkAddData", addData_) && get(library, "nvJitLinkComplete", complete_) &&
           get(library, "nvJitLinkGetLinkedCubinSize", cubinSize_) && get(library, "nvJitLinkGetLinkedCubin", cubin_) &&
           get(library, "nvJitLinkGetErrorLogSize", errorLogSize_) && get(library, "nvJitLinkGetErrorLog", errorLog_) &&
           get(library, "nvJitLinkVersion", version_) && version_(&major_, &minor_) == kSuccess;
  }

  int (*create_)(Handle *, uint32_t, const char **) = nullptr;
  int (*destroy_)(Handle *) = nullptr;
  int (*addData_)(Handle, int, const void *, size_t, const char *) = nullptr;
  int (*complete_)(Handle) = nullptr;
  int (*cubinSize_)(Handle, size_t *) = nullptr;
  int (*cubin_)(Handle, void *) = nullptr;
  int (*errorLogSize_)(Handle, size_t *) = nullptr;
  int (*errorLog_)(Handle, char *) = nullptr;
  int (*version_)(unsigned *, unsigned *) = nullptr;
  unsigned major_ = 0, minor_ = 0;
};

} // namespace

std::unique_ptr<Assembler> findNvJitLink() { return NvJitLink::find(); }

} // namespace tapeout::codegen
