// The two instruction sets that every CPU kernel exists in. Both give the same bits.
#pragma once

#include "runtime/base/Status.h"

namespace tapeout::rt {

enum class CpuIsa { Avx2, Avx512 };

/// The widest one that this processor and its operating system support. Unavailable without AVX2 and FMA.
Result<CpuIsa> detectCpuIsa();

} // namespace tapeout::rt
