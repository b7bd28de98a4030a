#include "runtime/device/cpu/Avx2.h"
#include "runtime/device/cpu/GemmKernel.h"

namespace tapeout::rt {

void gemmTileAvx2(const GemmTile &tile) { TileProduct<Avx2>(tile).run(); }

} // namespace tapeout::rt
