// What a compile is for: the value of --target.
#pragma once

#include "runtime/base/Status.h"

#include <cstdint>
#include <string>
#include <vector>

namespace tapeout::driver {

struct TargetChoice {
  std::string name = "cpu";            ///< of ir/tape/Target.h
  std::vector<unsigned> architectures; ///< cuda: compute capabilities, 90 is sm_90
  bool forNewerGpu = false;            ///< whether a GPU shall run it that is newer than all of them, by PTX

  /// As --target takes it: "cpu", "cuda:sm_80,sm_90".
  std::string text() const;
  /// Whether only Hopper GPUs shall run it.
  bool isHopper() const;
  /// Largest head of attention that cuDNN computes on all of the architectures.
  int64_t attentionHeadSize() const;
};

/// "cpu", "cuda" (for the GPU of this machine, else sm_90) or "cuda:sm_80,sm_90". Errors: Usage.
Result<TargetChoice> parseTarget(const std::string &text);

/// The default: cuda where this machine has a GPU, else cpu.
TargetChoice defaultTarget();

} // namespace tapeout::driver
