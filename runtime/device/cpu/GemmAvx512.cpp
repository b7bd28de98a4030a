#include "runtime/device/cpu/Avx512.h"
#include "runtime/device/cpu/GemmKernel.h"

namespace tapeout::rt {

void gemmTileAvx512(const GemmTile &tile) { TileProduct<Avx512>(tile).run(); }

} // namespace tapeout::rt
