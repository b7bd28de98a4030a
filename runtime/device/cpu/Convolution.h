// Convolutions of the CPU target, [n, channels, height, width] by [filters, channels, kernel height, kernel width], and
// their gradients: the matrix product of the weights with a patch matrix that exists only block by block (implicit GEMM).
//
// Same bits for any number of threads and for both instruction sets, as in Gemm.h: blocks of the summed dimension depend
// on shapes alone, and within a block an element is one chain of fused multiply-adds.
// docs/decisions/0010-cpu-convolution.md says why it is made this way.
#pragma once

#include "runtime/device/cpu/Gemm.h"

namespace tapeout::rt {

/// How a window steps over planes; also that of a pooling.
struct WindowShape {
  int64_t height = 0, width = 0;             // of the input
  int64_t kernelHeight = 0, kernelWidth = 0; // of the window
  int64_t outHeight = 0, outWidth = 0;       // positions of the window
  int64_t strideY = 1, strideX = 1;
  int64_t padTop = 0, padLeft = 0; // bottom and right follow
};

/// BadData unless all extents are from 1 to 2^24 and every position of the window meets the input.
Status verifyWindow(const WindowShape &window);

struct ConvolutionShape {
  int64_t batch = 0, channels = 0, filters = 0;
  WindowShape window;
};

/// y = x * w: [batch, filters, outHeight, outWidth].
void convolve(const ConvolutionShape &shape, const float *x, const float *w, float *y, CpuIsa isa, ThreadPool &pool,
              GemmWorkspace &workspace);
/// The gradient of x from that of y. Writes every element.
void convolveInputGradient(const ConvolutionShape &shape, const float *dy, const float *w, float *dx, CpuIsa isa,
                           ThreadPool &pool, GemmWorkspace &workspace);
/// The gradient of w as a sum of `parts` terms [parts, filters, channels, kernel height, kernel width]: term i is that of
/// the i-th part of the positions, so that threads can share the work where the weights are few.
void convolveWeightGradient(const ConvolutionShape &shape, int64_t parts, const float *x, const float *dy, float *dw,
                            CpuIsa isa, ThreadPool &pool, GemmWorkspace &workspace);

} // namespace tapeout::rt
