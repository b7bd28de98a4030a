// The part of the plan checks that is about kernels and products for cuda: what goes to the driver and to cuBLASLt.
#include "runtime/PlanCheck.h"
#include "runtime/Plan.h"
#include "runtime/PlanMatmul.h"
#include "runtime/device/cuda/MatmulLayout.h"

#include <elf.h>

#include <algorithm>
#include <cstring>
#include <set>

namespace tapeout::rt {
namespace {

constexpr uint32_t kMaxModules = 65536;
constexpr uint32_t kMaxBlocks = INT32_MAX, kMaxThreads = 1024;
constexpr uint32_t kMaxSharedBytes = 227 << 10;           // of any architecture so far
constexpr uint32_t kMaxParameters = 4096 / sizeof(void *); // a launch has 4 KiB of parameters
constexpr uint32_t kMinArchitecture = 50, kMaxArchitecture = 999;
constexpr uint16_t kElfMachineCuda = 190; // EM_CUDA

bool isInside(uint64_t offset, uint64_t bytes, uint64_t size) { return offset <= size && bytes <= size - offset; }

/// Whether the bytes are an ELF file for NVIDIA GPUs whose sections lie inside it. The driver checks the rest.
bool isCubin(std::span<const uint8_t> bytes) {
  Elf64_Ehdr header;
  if (bytes.size() < sizeof header)
    return false;
  std::memcpy(&header, bytes.data(), sizeof header);
  if (std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 || header.e_ident[EI_CLASS] != ELFCLASS64 ||
      header.e_machine != kElfMachineCuda || header.e_shentsize != sizeof(Elf64_Shdr) ||
      !isInside(header.e_shoff, uint64_t(header.e_shnum) * sizeof(Elf64_Shdr), bytes.size()) ||
      !isInside(header.e_phoff, uint64_t(header.e_phnum) * header.e_phentsize, bytes.size()))
    return false;
  for (uint16_t i = 0; i < header.e_shnum; ++i) {
    Elf64_Shdr section;
    std::memcpy(&section, bytes.data() + header.e_shoff + i * sizeof section, sizeof section);
    if (section.sh_type != SHT_NOBITS && !isInside(section.sh_offset, section.sh_size, bytes.size()))
      return false;
  }
  return true;
}

Status checkModule(const plan::KernelModule &module, uint32_t index) {
  if (!module.ptx() && orEmpty(module.cubins()).size() == 0)
    return bad("kernel module {} is empty", index);
  if (module.ptx() && std::strlen(module.ptx()->c_str()) != module.ptx()->size())
    return bad("the PTX of kernel module {} has a zero inside", index);
  std::set<uint32_t> seen;
  for (const plan::Cubin *cubin : orEmpty(module.cubins())) {
    if (cubin->architecture() < kMinArchitecture || cubin->architecture() > kMaxArchitecture ||
        !seen.insert(cubin->architecture()).second)
      return bad("kernel module {} has a cubin for the architecture {}, unknown or given twice", index, cubin->architecture());
    if (!cubin->bytes() || !isCubin({cubin->bytes()->data(), cubin->bytes()->size()}))
      return bad("the cubin for sm_{} of kernel module {} is no ELF file for NVIDIA GPUs", cubin->architecture(), index);
  }
  return Status::ok();
}

} // namespace

Status checkModules(const plan::Plan &plan) {
  const auto &modules = orEmpty(plan.modules());
  if (modules.size() > kMaxModules)
    return bad("it has {} kernel modules", modules.size());
  for (uint32_t i = 0; i < modules.size(); ++i)
    TAPEOUT_RETURN_IF_ERROR(checkModule(*modules.Get(i), i));
  return Status::ok();
}

Status checkGpuKernel(const plan::Plan &plan, const plan::Kernel &kernel) {
  const plan::GpuKernel *gpu = kernel.gpu();
  std::string name = printable(kernel.symbol());
  if (!gpu || gpu->module_() >= orEmpty(plan.modules()).size())
    return bad("kernel '{}' lies in no module of the plan", name);
  if (gpu->blocks() < 1 || gpu->blocks() > kMaxBlocks || gpu->threads() < 1 || gpu->threads() > kMaxThreads)
    return bad("kernel '{}' has {} blocks of {} threads, out of range", name, gpu->blocks(), gpu->threads());
  if (gpu->shared_bytes() > kMaxSharedBytes)
    return bad("kernel '{}' asks for {} bytes of shared memory, more than {}", name, gpu->shared_bytes(), kMaxSharedBytes);
  if (!gpu->argument_table() && kernel.argument_count() > kMaxParameters)
    return bad("kernel '{}' has {} arguments, more than {} without a table", name, kernel.argument_count(), kMaxParameters);
  return Status::ok();
}

Status checkCudaMatmul(const plan::Matmul &matmul, plan::ElementType a, plan::ElementType b, plan::ElementType c) {
  using Type = plan::ElementType;
  if (matmul.epilogue() && !matmul.bias())
    return bad("the matrix product has an epilogue that is no bias, which cuda does not run");
  if (matmul.bias() && !matmul.epilogue())
    return bad("the matrix product has a bias but no kernel that adds it");
  bool isFloat = a == Type::F32 || a == Type::BF16 || a == Type::F16;
  if (!isFloat || a != b || (c != a && c != Type::F32))
    return bad("the matrix product of {} and {} to {} is none that cuBLASLt has", plan::EnumNameElementType(a),
               plan::EnumNameElementType(b), plan::EnumNameElementType(c));
  if (Result<MatmulLayout> layout = chooseMatmulLayout(toGemmProblem(matmul)); !layout.isOk())
    return bad("{}", layout.status().message());
  return Status::ok();
}

} // namespace tapeout::rt
