// How many bytes a kernel moves, without caches.
#pragma once

#include "mlir/IR/Block.h"

#include <cstdint>

namespace tapeout {

/// Of a kernel with this region: the elements that it needs of each operand, read once, and its results, written once.
uint64_t bytesMoved(mlir::Block &body);
/// Of its ops as kernels of their own, each of which reads through the views before it.
uint64_t bytesMovedAlone(mlir::Block &body);

} // namespace tapeout
