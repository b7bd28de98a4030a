// Windows that slide over planes, as convolutions and poolings share them.
#pragma once

#include "ir/tape/Tape.h"

namespace tapeout::tape {

/// The sizes of a window over an input [batch, channels, height, width]; with an error at `loc` if it does not fit.
/// `kernel` and `strides` are height and width, `padding` is top, bottom, left and right.
mlir::FailureOr<WindowSizes> windowOf(std::optional<mlir::Location> loc, llvm::ArrayRef<int64_t> input,
                                      llvm::ArrayRef<int64_t> kernel, llvm::ArrayRef<int64_t> strides,
                                      llvm::ArrayRef<int64_t> padding);

} // namespace tapeout::tape
