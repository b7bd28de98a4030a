// Records with CUPTI what runs on the GPU.
#pragma once

#include "runtime/device/cuda/Cupti.h"

#include <memory>
#include <string>
#include <vector>

namespace tapeout::rt {

/// Something that ran on the GPU.
struct DeviceRecord {
  enum class Kind : uint8_t { Kernel, CopyToHost, OtherCopy, Fill };
  Kind kind;
  bool inGraph; ///< launched by a graph
  uint64_t begin, end; ///< nanoseconds of CUPTI's clock
  std::string name;    ///< of a kernel
};

/// One at a time in a process: CUPTI calls back without saying whom.
class CuptiRecorder {
public:
  /// Records from now on. Graphs that are to be recorded must be made after this.
  static Result<std::unique_ptr<CuptiRecorder>> start(const Cupti &cupti);
  ~CuptiRecorder();
  CuptiRecorder(const CuptiRecorder &) = delete;
  CuptiRecorder &operator=(const CuptiRecorder &) = delete;

  std::string name() const { return cupti_.name(); }
  /// What begins between the two is not recorded. The GPU has nothing to do when they are called.
  Status pause();
  Status resume();
  /// All records so far, by the time at which they begin. The GPU has nothing to do.
  Result<std::vector<DeviceRecord>> finish();

private:
  explicit CuptiRecorder(const Cupti &cupti);
  static void giveBuffer(uint8_t **buffer, size_t *bytes, size_t *mostRecords);
  static void takeBuffer(CuContext context, uint32_t stream, uint8_t *buffer, size_t bytes, size_t validBytes);
  void read(uint8_t *buffer, size_t validBytes);

  const Cupti cupti_;
  std::vector<DeviceRecord> records_;
};

} // namespace tapeout::rt
