// The facts that every tape op must state about itself (mandatory arguments of the ODS base class).
#pragma once

#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringRef.h"

#include <cstdint>

namespace tapeout::tape {

/// Mixed precision: Always runs in the low precision, Never leaves fp32, Follow takes its operands' precision. Inside is
/// fp32 inside only: as Never, but at level O2 its first result is as precise as its first operand. For norms in the
/// midst of a residual stream, and their gradients.
enum class AmpClass { Always, Follow, Never, Inside };

/// How an op may take part in a fused kernel.
///   Elementwise: result[i] depends on operand[i] (rank-0 operands: on the one element) through a scalar body.
///   Reduction:   a scalar combiner over some dimensions.
///   Injective:   result[i] is operand[f(i)], f affine: nothing is computed.
///   Opaque:      a kernel or library call of its own.
///   Barrier:     never moves or merges (collectives, state updates).
enum class FusionKind { Elementwise, Reduction, Injective, Opaque, Barrier };

llvm::StringRef stringify(AmpClass amp);
llvm::StringRef stringify(FusionKind kind);

/// Where an element of a result lives in an operand: linear offset = offset + sum over d of strides[d] * index[d].
struct StridedAccess {
  int64_t offset = 0;
  llvm::SmallVector<int64_t, 6> strides; // one per dimension of the result, in elements
};

/// A window that slides over the planes of [batch, channels, height, width]: a convolution, a pooling or a gradient of one.
struct WindowSizes {
  int64_t batch, channels;
  int64_t filters;                   // convolutions, else 1
  int64_t height, width;             // of the input
  int64_t kernelHeight, kernelWidth; // of the window
  int64_t outHeight, outWidth;       // positions of the window
  int64_t strideY, strideX;
  int64_t padTop, padLeft;
  int64_t parts; // terms that a weight gradient is given as, else 1
};

} // namespace tapeout::tape
