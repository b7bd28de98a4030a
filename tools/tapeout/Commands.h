// The subcommands of `tapeout`. Each adds itself to the command line; the returned function runs it when it was chosen.
#pragma once

#include "runtime/base/Status.h"

#include <functional>

namespace CLI {
class App;
}

namespace tapeout::cli {

using Action = std::function<Status()>;

Action addModelCommand(CLI::App &app);
Action addCompileCommand(CLI::App &app);
Action addInspectCommand(CLI::App &app);
Action addInterpretCommand(CLI::App &app);
Action addBenchCommand(CLI::App &app);

} // namespace tapeout::cli
