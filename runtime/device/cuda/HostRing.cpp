#include "runtime/device/cuda/HostRing.h"

namespace tapeout::rt {

constexpr uint64_t kPlaceAlignment = 256;

Result<HostRing> HostRing::create(const CudaDriver &driver, const Plan &plan) {
  HostRing ring;
  ring.driver_ = &driver;
  ring.plan_ = &plan;
  uint64_t bytes = 0;
  for (uint32_t i = 0; i < plan.slotCount(); ++i) {
    const plan::Slot &slot = plan.slot(i);
    bool isScalar = slot.kind() == plan::SlotKind::Output && elementCount(slot) == 1;
    if (!isScalar && slot.kind() != plan::SlotKind::Input)
      continue;
    ring.offsets_[i] = bytes;
    bytes += (slot.bytes() + kPlaceAlignment - 1) / kPlaceAlignment * kPlaceAlignment;
  }
  for (Stage &stage : ring.stages_) {
    Result<Owned<void *>> memory = allocatePinned(driver, bytes);
    if (!memory.isOk())
      return memory.status();
    stage.memory = std::move(*memory);
    CuEvent event;
    TAPEOUT_RETURN_IF_ERROR(driver.check(driver.eventCreate(&event, kCuEventDisableTiming), "an event"));
    stage.done = Owned(event, driver.eventDestroy);
  }
  return ring;
}

Result<std::span<uint8_t>> HostRing::input(uint64_t run, uint32_t slot) {
  if (stage(run).inUse)
    TAPEOUT_RETURN_IF_ERROR(wait(run));
  stage(run).inUse = false;
  return std::span<uint8_t>(place(run, slot), plan_->slot(slot).bytes());
}

void *HostRing::scalar(uint64_t run, uint32_t slot) const { return place(run, slot); }

Status HostRing::close(uint64_t run, CuStream stream) {
  stage(run).inUse = true;
  return driver_->check(driver_->eventRecord(stage(run).done.get(), stream), "a step cannot be queued");
}

Status HostRing::wait(uint64_t run) const {
  return driver_->check(driver_->eventSynchronize(stage(run).done.get()), "a step on the GPU failed");
}

} // namespace tapeout::rt
