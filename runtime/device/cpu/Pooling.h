// Poolings of the CPU target over planes [height, width], and their gradients. Each plane is computed on its own, in one
// order: the same bits for any number of threads.
#pragma once

#include "runtime/device/cpu/Convolution.h"

namespace tapeout::rt {

/// The maximum of each window, and which of its elements that is: row * kernelWidth + column of the first one in the
/// window. A NaN counts as larger than everything. Positions outside of the plane do not take part.
void poolMaximum(const WindowShape &window, int64_t planes, const float *x, float *y, int32_t *index, ThreadPool &pool);
/// Each dy goes to the element that was the maximum of its window.
void poolMaximumGradient(const WindowShape &window, int64_t planes, const int32_t *index, const float *dy, float *dx,
                         ThreadPool &pool);
/// The sum of each window, positions outside counted as 0, divided by the window's size.
void poolAverage(const WindowShape &window, int64_t planes, const float *x, float *y, ThreadPool &pool);
void poolAverageGradient(const WindowShape &window, int64_t planes, const float *dy, float *dx, ThreadPool &pool);

} // namespace tapeout::rt
