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
constexpr uint64_t kMaxParameterBytes = 4096;              // of a launch
constexpr uint32_t kMaxParameters = kMaxParameterBytes / sizeof(void *);
// Of the tensor memory accelerator: cuTensorMapEncodeTiled.
constexpr uint64_t kTensorMapBytes = 128, kTensorMapAlignment = 64;
constexpr int64_t kMaxMapExtent = int64_t(1) << 32;
constexpr uint64_t kMaxMapRowBytes = uint64_t(1) << 40;
constexpr uint32_t kMaxBoxRows = 256, kSwizzleBytes = 128, kMapAlignment = 16;
constexpr uint32_t kMinArchitecture = 50, kMaxArchitecture = 999;
constexpr uint16_t kElfMachineCuda = 190; // EM_CUDA

/// Of a launch with tensor maps, which lie behind the pointers.
uint64_t parameterBytes(const plan::Kernel &kernel) {
  uint64_t pointers = kernel.argument_count() * uint64_t(sizeof(void *));
  uint64_t aligned = (pointers + kTensorMapAlignment - 1) / kTensorMapAlignment * kTensorMapAlignment;
  return aligned + orEmpty(kernel.gpu()->tensor_maps()).size() * kTensorMapBytes;
}

/// What does not depend on the slots of a launch.
Status checkTensorMaps(const plan::Kernel &kernel) {
  const auto &maps = orEmpty(kernel.gpu()->tensor_maps());
  if (maps.size() == 0)
    return Status::ok();
  std::string name = printable(kernel.symbol());
  if (kernel.gpu()->argument_table())
    return bad("kernel '{}' takes tensor maps and a table of arguments", name);
  if (uint64_t bytes = parameterBytes(kernel); bytes > kMaxParameterBytes)
    return bad("kernel '{}' has {} bytes of parameters with its tensor maps, more than {}", name, bytes,
               kMaxParameterBytes);
  for (const plan::TensorMap *map : maps) {
    if (map->argument() >= kernel.argument_count())
      return bad("kernel '{}' has a tensor map of its argument {}, which does not exist", name, map->argument());
    if (map->rows() < 1 || map->rows() > kMaxMapExtent || map->columns() < 1 || map->columns() > kMaxMapExtent)
      return bad("kernel '{}' has a tensor map of {} rows and {} columns, out of range", name, map->rows(),
                 map->columns());
    if (map->row_stride() < map->columns())
      return bad("kernel '{}' has a tensor map whose rows of {} elements lie {} apart", name, map->columns(),
                 map->row_stride());
    if (map->box_rows() < 1 || map->box_rows() > kMaxBoxRows)
      return bad("kernel '{}' has a tensor map with boxes of {} rows, out of range", name, map->box_rows());
  }
  return Status::ok();
}

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
  return checkTensorMaps(kernel);
}

Status checkTensorMap(const plan::Kernel &kernel, const plan::TensorMap &map, const plan::Slot &slot) {
  using Type = plan::ElementType;
  std::string name = printable(kernel.symbol()), of = printable(slot.name());
  Type type = slot.element_type();
  if (type != Type::F32 && type != Type::BF16 && type != Type::F16)
    return bad("kernel '{}' has a tensor map of '{}', whose type {} no tensor map has", name, of,
               plan::EnumNameElementType(type));
  const uint64_t size = elementSize(elementType(slot)), room = slot.bytes() / size;
  if (map.box_columns() != kSwizzleBytes / size)
    return bad("kernel '{}' has a tensor map of '{}' with boxes of {} columns instead of {}", name, of,
               map.box_columns(), kSwizzleBytes / size);
  const uint64_t rows = map.rows(), columns = map.columns(), rowStride = map.row_stride();
  const uint64_t offset = map.offset(); // a negative one becomes larger than any slot
  if (rowStride >= kMaxMapRowBytes / size)
    return bad("kernel '{}' has a tensor map of '{}' whose rows lie {} elements apart, too far", name, of, rowStride);
  if (rowStride * size % kMapAlignment != 0)
    return bad("kernel '{}' has a tensor map of '{}' whose rows lie {} elements apart, no multiple of {} bytes", name,
               of, rowStride, kMapAlignment);
  uint64_t last; // where the last row begins, behind offset
  if (__builtin_mul_overflow(rows - 1, rowStride, &last) || last > room || columns > room - last ||
      offset > room - last - columns)
    return bad("kernel '{}' has a tensor map that leaves '{}'", name, of);
  if (offset * size % kMapAlignment != 0) // slots begin at multiples of 64 bytes
    return bad("kernel '{}' has a tensor map that begins {} elements into '{}', no multiple of {} bytes", name, offset,
               of, kMapAlignment);
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
