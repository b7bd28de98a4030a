// NVIDIA's library nvJitLink as an assembler, for machines that have the CUDA libraries but not the toolkit.
#pragma once

#include "codegen/cuda/Assembler.h"

namespace tapeout::codegen {

/// Null where the library is not found.
std::unique_ptr<Assembler> findNvJitLink();

} // namespace tapeout::codegen
