// Pinned memory between the host and queued runs: the inputs of a run that are on their way to the device, and the numbers
// that a run has left. A stage belongs to every kStages-th run.
#pragma once

#include "runtime/Plan.h"
#include "runtime/device/cuda/CudaDevice.h"

#include <array>
#include <map>
#include <span>

namespace tapeout::rt {

class HostRing {
public:
  static constexpr unsigned kStages = 2;

  static Result<HostRing> create(const CudaDriver &driver, const Plan &plan);

  /// The place of an input for the run with this number; waits until the last run that used it is over.
  Result<std::span<uint8_t>> input(uint64_t run, uint32_t slot);
  /// The place of an output of one element.
  void *scalar(uint64_t run, uint32_t slot) const;
  /// Call it when everything of this run has been queued.
  Status close(uint64_t run, CuStream stream);
  /// Returns when that run is over.
  Status wait(uint64_t run) const;

private:
  struct Stage {
    Owned<void *> memory;
    Owned<CuEvent> done;
    bool inUse = false; // by a run that may not be over
  };
  Stage &stage(uint64_t run) { return stages_[run % kStages]; }
  const Stage &stage(uint64_t run) const { return stages_[run % kStages]; }
  uint8_t *place(uint64_t run, uint32_t slot) const {
    return static_cast<uint8_t *>(stage(run).memory.get()) + offsets_.at(slot);
  }

  const CudaDriver *driver_ = nullptr;
  const Plan *plan_ = nullptr;
  std::map<uint32_t, uint64_t> offsets_; // of inputs, and of outputs of one element
  std::array<Stage, kStages> stages_;
};

} // namespace tapeout::rt
