// tapeout: the compiler's command line.
#include "tools/tapeout/Commands.h"

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <utility>
#include <vector>

using namespace tapeout;

static int usageError(const CLI::ParseError &error, CLI::App &app) {
  if (error.get_exit_code() == 0) // --help, --version
    return app.exit(error);
  fmt::print(stderr, "tapeout: {}; --help shows the options\n", error.what());
  return static_cast<int>(error.get_name() == "ConfigError" ? ExitCode::BadConfig : ExitCode::Usage);
}

int main(int argc, char **argv) {
  CLI::App app("Tapeout compiles a model graph into one training executable.", "tapeout");
  app.set_version_flag("--version", "tapeout " TAPEOUT_VERSION);
  app.require_subcommand(1);
  app.fallthrough();
  app.set_config("--config", "", "Read options from a TOML file with one [section] per command");
  app.allow_config_extras(CLI::config_extras_mode::error);

  std::vector<std::pair<std::string, cli::Action>> actions;
  actions.emplace_back("model", cli::addModelCommand(app));
  actions.emplace_back("compile", cli::addCompileCommand(app));
  actions.emplace_back("inspect", cli::addInspectCommand(app));
  actions.emplace_back("interpret", cli::addInterpretCommand(app));
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError &error) {
    return usageError(error, app);
  }
  for (auto &[name, action] : actions)
    if (app.got_subcommand(name)) {
      Status status = action();
      if (!status.isOk())
        fmt::print(stderr, "tapeout: {}\n", status.message());
      return static_cast<int>(status.code());
    }
  return static_cast<int>(ExitCode::Usage);
}
