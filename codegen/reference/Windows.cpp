#include "codegen/reference/Windows.h"

#include <cmath>

namespace tapeout::codegen::reference {

using tape::WindowSizes;

namespace {

// Calls visit(input, output, tap) for every element of every position's window that lies inside of one plane, in order.
template <typename Visit> void forEachElement(const WindowSizes &s, Visit visit) {
  for (int64_t oy = 0; oy < s.outHeight; ++oy)
    for (int64_t ox = 0; ox < s.outWidth; ++ox)
      for (int64_t r = 0; r < s.kernelHeight; ++r)
        for (int64_t c = 0; c < s.kernelWidth; ++c) {
          int64_t y = oy * s.strideY + r - s.padTop, x = ox * s.strideX + c - s.padLeft;
          if (y >= 0 && y < s.height && x >= 0 && x < s.width)
            visit(y * s.width + x, oy * s.outWidth + ox, r * s.kernelWidth + c);
        }
}

// Calls visit(image, filter, channel) with the numbers of the input plane, the result plane and the kernel.
template <typename Visit> void forEachPlane(const WindowSizes &s, Visit visit) {
  for (int64_t n = 0; n < s.batch; ++n)
    for (int64_t o = 0; o < s.filters; ++o)
      for (int64_t c = 0; c < s.channels; ++c)
        visit(n * s.channels + c, n * s.filters + o, o * s.channels + c);
}

int64_t inPlane(const WindowSizes &s) { return s.height * s.width; }
int64_t outPlane(const WindowSizes &s) { return s.outHeight * s.outWidth; }
int64_t kernelSize(const WindowSizes &s) { return s.kernelHeight * s.kernelWidth; }

} // namespace

void convolve(const WindowSizes &s, const double *x, const double *w, double *y) {
  forEachPlane(s, [&](int64_t from, int64_t to, int64_t kernel) {
    const double *source = x + from * inPlane(s), *weight = w + kernel * kernelSize(s);
    double *target = y + to * outPlane(s);
    forEachElement(s,
                   [&](int64_t input, int64_t output, int64_t tap) { target[output] += source[input] * weight[tap]; });
  });
}

void convolveInputGradient(const WindowSizes &s, const double *dy, const double *w, double *dx) {
  forEachPlane(s, [&](int64_t to, int64_t from, int64_t kernel) {
    const double *gradient = dy + from * outPlane(s), *weight = w + kernel * kernelSize(s);
    double *target = dx + to * inPlane(s);
    forEachElement(
        s, [&](int64_t input, int64_t output, int64_t tap) { target[input] += gradient[output] * weight[tap]; });
  });
}

void convolveWeightGradient(const WindowSizes &s, const double *x, const double *dy, double *dw) {
  int64_t positions = s.batch * outPlane(s), partLength = (positions + s.parts - 1) / s.parts;
  int64_t weights = s.filters * s.channels * kernelSize(s);
  forEachPlane(s, [&](int64_t from, int64_t plane, int64_t kernel) {
    const double *source = x + from * inPlane(s), *gradient = dy + plane * outPlane(s);
    int64_t first = plane / s.filters * outPlane(s); // position of the image
    forEachElement(s, [&](int64_t input, int64_t output, int64_t tap) {
      dw[(first + output) / partLength * weights + kernel * kernelSize(s) + tap] += gradient[output] * source[input];
    });
  });
}

void maxPool(const WindowSizes &s, const double *x, double *y, double *index) {
  for (int64_t plane = 0; plane < s.batch * s.channels;
       ++plane, x += inPlane(s), y += outPlane(s), index += outPlane(s)) {
    for (int64_t i = 0; i < outPlane(s); ++i)
      index[i] = -1;
    forEachElement(s, [&](int64_t input, int64_t output, int64_t tap) {
      if (index[output] >= 0 && (x[input] <= y[output] || std::isnan(y[output])))
        return;
      y[output] = x[input];
      index[output] = static_cast<double>(tap);
    });
  }
}

void maxPoolGradient(const WindowSizes &s, const double *index, const double *dy, double *dx) {
  for (int64_t plane = 0; plane < s.batch * s.channels;
       ++plane, dx += inPlane(s), dy += outPlane(s), index += outPlane(s))
    forEachElement(s, [&](int64_t input, int64_t output, int64_t tap) {
      if (index[output] == static_cast<double>(tap))
        dx[input] += dy[output];
    });
}

void avgPool(const WindowSizes &s, const double *x, double *y) {
  for (int64_t plane = 0; plane < s.batch * s.channels; ++plane, x += inPlane(s), y += outPlane(s))
    forEachElement(
        s, [&](int64_t input, int64_t output, int64_t) { y[output] += x[input] / static_cast<double>(kernelSize(s)); });
}

void avgPoolGradient(const WindowSizes &s, const double *dy, double *dx) {
  for (int64_t plane = 0; plane < s.batch * s.channels; ++plane, dx += inPlane(s), dy += outPlane(s))
    forEachElement(s, [&](int64_t input, int64_t output, int64_t) {
      dx[input] += dy[output] / static_cast<double>(kernelSize(s));
    });
}

} // namespace tapeout::codegen::reference
