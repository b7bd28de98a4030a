#include "runtime/device/cpu/Avx2.h"
#include "runtime/device/cpu/ConvolutionKernel.h"

namespace tapeout::rt {

void patchTileAvx2(const PatchTile &tile) { PatchProduct<Avx2>(tile).run(); }
void weightTileAvx2(const WeightTile &tile) { WeightProduct<Avx2>(tile).run(); }

} // namespace tapeout::rt
