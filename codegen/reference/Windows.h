// Convolutions and poolings of the reference interpreter: plain loops over row-major doubles.
#pragma once

#include "ir/tape/Facts.h"

namespace tapeout::codegen::reference {

void convolve(const tape::WindowSizes &sizes, const double *x, const double *w, double *y);
void convolveInputGradient(const tape::WindowSizes &sizes, const double *dy, const double *w, double *dx);
void convolveWeightGradient(const tape::WindowSizes &sizes, const double *x, const double *dy, double *dw);
void maxPool(const tape::WindowSizes &sizes, const double *x, double *y, double *index);
void maxPoolGradient(const tape::WindowSizes &sizes, const double *index, const double *dy, double *dx);
void avgPool(const tape::WindowSizes &sizes, const double *x, double *y);
void avgPoolGradient(const tape::WindowSizes &sizes, const double *dy, double *dx);

} // namespace tapeout::codegen::reference
