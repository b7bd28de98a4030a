#include "runtime/device/cuda/TensorMap.h"

#include <fmt/format.h>

namespace tapeout::rt {
namespace {

int mapType(ElementType type) {
  return type == ElementType::F32 ? kCuMapF32 : type == ElementType::F16 ? kCuMapF16 : kCuMapBf16;
}

} // namespace

Status checkTensorMapSupport(const CudaDriver &driver, const Plan &plan) {
  if (driver.tensorMapEncodeTiled)
    return Status::ok();
  for (const plan::Kernel *kernel : orEmpty(plan.root().kernels()))
    if (orEmpty(kernel->gpu()->tensor_maps()).size() > 0)
      return Status::error(ExitCode::Unavailable,
                           fmt::format("the NVIDIA driver has no tensor maps, which the kernel '{}' of this executable "
                                       "takes; install a driver of CUDA 12.0 or a newer one",
                                       printable(kernel->symbol())));
  return Status::ok();
}

Result<CuTensorMap> encodeTensorMap(const CudaDriver &driver, const plan::TensorMap &map, const plan::Slot &slot,
                                    CuDevicePointer address) {
  const uint64_t size = elementSize(elementType(slot));
  const uint64_t sizes[] = {static_cast<uint64_t>(map.columns()), static_cast<uint64_t>(map.rows())};
  const uint64_t rowBytes = map.row_stride() * size;
  const uint32_t box[] = {map.box_columns(), map.box_rows()}, elementStrides[] = {1, 1};
  void *begin = reinterpret_cast<void *>(address + map.offset() * size);
  CuTensorMap encoded;
  CuResult result = driver.tensorMapEncodeTiled(&encoded, mapType(elementType(slot)), 2, begin, sizes, &rowBytes, box,
                                                elementStrides, kCuMapNoInterleave, kCuMapSwizzle128,
                                                kCuMapPromotion256, kCuMapZeroFill);
  TAPEOUT_RETURN_IF_ERROR(driver.check(result, fmt::format("a tensor map of '{}'", printable(slot.name()))));
  return encoded;
}

} // namespace tapeout::rt
