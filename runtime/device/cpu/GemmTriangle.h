#pragma once

#include <cstdint>

namespace tapeout::rt {

/// What gemm leaves out: enum Triangle of runtime/plan.fbs. Of Result, the elements above the diagonal become 0.
enum class GemmTriangle : uint8_t { None, Result, A, ATransposed };

} // namespace tapeout::rt
