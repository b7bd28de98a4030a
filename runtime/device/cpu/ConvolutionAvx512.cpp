#include "runtime/device/cpu/Avx512.h"
#include "runtime/device/cpu/ConvolutionKernel.h"

namespace tapeout::rt {

void patchTileAvx512(const PatchTile &tile) { PatchProduct<Avx512>(tile).run(); }
void weightTileAvx512(const WeightTile &tile) { WeightProduct<Avx512>(tile).run(); }

} // namespace tapeout::rt
