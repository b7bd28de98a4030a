#include "runtime/device/cpu/CpuIsa.h"

namespace tapeout::rt {

Result<CpuIsa> detectCpuIsa() {
  // The builtin also asks the operating system whether it saves the wide registers.
  if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma"))
    return Status::error(ExitCode::Unavailable, "this processor lacks AVX2 or FMA, which every CPU kernel needs; "
                                                "run on an x86-64 processor of 2013 or later");
  bool avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") &&
                __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq");
  return avx512 ? CpuIsa::Avx512 : CpuIsa::Avx2;
}

} // namespace tapeout::rt
