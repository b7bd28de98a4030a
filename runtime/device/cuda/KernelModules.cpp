#include "runtime/device/cuda/KernelModules.h"

#include <fmt/format.h>

#include <array>
#include <cstring>
#include <set>

namespace tapeout::rt {
namespace {

std::string architecturesOf(const Plan &plan) {
  std::set<uint32_t> found;
  for (const plan::KernelModule *module : orEmpty(plan.root().modules()))
    for (const plan::Cubin *cubin : orEmpty(module->cubins()))
      found.insert(cubin->architecture());
  std::string text;
  for (uint32_t architecture : found)
    text += fmt::format("{}sm_{}", text.empty() ? "" : ", ", architecture);
  return text;
}

Result<CuModule> loadModule(const CudaDriver &driver, const ModuleImage &image) {
  std::array<char, 1024> log = {};
  int options[] = {kCuJitErrorLog, kCuJitErrorLogBytes};
  void *values[] = {log.data(), reinterpret_cast<void *>(log.size() - 1)};
  // A cubin is an ELF file, which wants to be aligned; bytes of a plan are not.
  std::vector<uint64_t> aligned((image.bytes.size() + sizeof(uint64_t) - 1) / sizeof(uint64_t));
  std::memcpy(aligned.data(), image.bytes.data(), image.bytes.size());
  CuModule module;
  CuResult result = driver.moduleLoadDataEx(&module, aligned.data(), 2, options, values);
  if (result == kCuSuccess)
    return module;
  std::string reason = driver.describe(result);
  if (log[0])
    reason += fmt::format(": {}", std::string_view(log.data()).substr(0, std::string_view(log.data()).find('\n')));
  return Status::error(ExitCode::Unavailable,
                       fmt::format("the NVIDIA driver does not take the kernels of this executable ({}); {}", reason,
                                   image.isPtx ? "install a newer driver, or compile the model with --target cuda:sm_NN for "
                                                 "this GPU"
                                               : "compile the model again for this GPU"));
}

} // namespace

std::optional<ModuleImage> chooseImage(const plan::KernelModule &module, int architecture) {
  const plan::Cubin *best = nullptr;
  for (const plan::Cubin *cubin : orEmpty(module.cubins())) {
    auto built = static_cast<int>(cubin->architecture());
    bool runs = built / 10 == architecture / 10 && built <= architecture;
    if (runs && (!best || cubin->architecture() > best->architecture()))
      best = cubin;
  }
  if (best)
    return ModuleImage{{best->bytes()->data(), best->bytes()->size()}, false};
  if (module.ptx())
    return ModuleImage{{module.ptx()->Data(), module.ptx()->size() + 1}, true};
  return std::nullopt;
}

Status checkImages(const Plan &plan, int architecture, const std::string &device) {
  for (const plan::KernelModule *module : orEmpty(plan.root().modules()))
    if (!chooseImage(*module, architecture))
      return Status::error(ExitCode::Unavailable,
                           fmt::format("this executable has kernels for {}, which the {} (sm_{}) cannot run; compile the "
                                       "model with --target cuda on this machine",
                                       architecturesOf(plan), device, architecture));
  return Status::ok();
}

Result<KernelModules> KernelModules::load(const CudaDriver &driver, const Plan &plan, int architecture) {
  KernelModules result;
  for (const plan::KernelModule *module : orEmpty(plan.root().modules())) {
    Result<CuModule> loaded = loadModule(driver, *chooseImage(*module, architecture));
    if (!loaded.isOk())
      return loaded.status();
    result.modules_.emplace_back(*loaded, driver.moduleUnload);
  }
  for (const plan::Kernel *kernel : orEmpty(plan.root().kernels())) {
    const plan::GpuKernel &gpu = *kernel->gpu();
    CuFunction function;
    if (CuResult found = driver.moduleGetFunction(&function, result.modules_[gpu.module_()].get(), kernel->symbol()->c_str());
        found != kCuSuccess)
      return Status::error(ExitCode::BadData, fmt::format("the kernel '{}' of the plan is not in its module ({}); compile the "
                                                          "model again",
                                                          kernel->symbol()->str(), driver.describe(found)));
    if (gpu.shared_bytes() > 0) // static and dynamic shared memory of more than 48 KiB must be asked for
      TAPEOUT_RETURN_IF_ERROR(
          driver.check(driver.funcSetAttribute(function, kCuMaxDynamicSharedBytes, static_cast<int>(gpu.shared_bytes())),
                       fmt::format("kernel '{}' asks for {} bytes of shared memory", kernel->symbol()->str(),
                                   gpu.shared_bytes())));
    result.functions_.push_back(function);
  }
  return result;
}

} // namespace tapeout::rt
