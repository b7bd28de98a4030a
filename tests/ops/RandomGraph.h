// Random small graphs, for comparing two evaluators of the same function.
#pragma once

#include "tests/ops/Support.h"

namespace tapeout::ops {

/// A function of 5 to 30 steps over the dialect, the same for the same seed. It is differentiable in its f32 arguments,
/// its values stay small, and every value contributes to a result. Its last arguments are row ids (i32, for tables of 4
/// rows or more), a seed and a step (i64).
TestModule makeRandomGraph(mlir::MLIRContext &context, uint64_t seed);

/// Arguments for it.
std::vector<Tensor> makeRandomGraphArguments(mlir::func::FuncOp function, uint64_t seed);

} // namespace tapeout::ops
