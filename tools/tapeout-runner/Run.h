// What a training executable does with its options: open, start or resume, train, evaluate, generate, export.
#pragma once

#include "runtime/base/Status.h"

namespace tapeout::runner {

/// Errors carry the exit code of the process.
Status run(int argc, const char *const *argv);

} // namespace tapeout::runner
