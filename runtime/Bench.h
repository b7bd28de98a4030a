// The measured side of `tapeout bench`: an executable that trains when it is told to and says how long each step took.
//
// One object of JSON per line. First it says what it is. Then, for every number of steps that it reads, it trains so
// many and says how long each took. It ends with its input. docs/bench.md explains the fields.
#pragma once

#include "runtime/Executor.h"
#include "runtime/base/Status.h"
#include "runtime/device/cpu/MissCounter.h"
#include "runtime/io/DataLoader.h"

#include <cstdio>

namespace tapeout::rt {

/// Without `data` every step reads the same random numbers. `counter`: the misses of all threads, or why there are none.
/// Errors: Usage for a line that is no number of steps, those of the data and of the executor.
Status serveBench(Executor &executor, DataLoader *data, const Result<MissCounter> &counter, std::FILE *in, std::FILE *out);

} // namespace tapeout::rt
