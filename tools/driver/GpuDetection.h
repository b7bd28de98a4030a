// Whether this machine has a GPU that a compile may be for.
#pragma once

#include <optional>

namespace tapeout::driver {

/// The compute capability of the first GPU (90: sm_90); none where there is no driver or no GPU.
std::optional<unsigned> detectGpu();

} // namespace tapeout::driver
