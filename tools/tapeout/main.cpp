// tapeout: the compiler's command line.
#include "runtime/base/AtomicFile.h"
#include "tools/tapeout/Commands.h"

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <cstdio>
#include <string_view>
#include <utility>
#include <vector>

using namespace tapeout;

static int usageError(const CLI::ParseError &error, CLI::App &app) {
  if (error.get_exit_code() == 0) // --help, --version
    return app.exit(error);
  std::string what = error.what(); // may quote a whole damaged file
  fmt::print(stderr, "tapeout: {:.300}; --help shows the options\n", what);
  return static_cast<int>(error.get_name() == "ConfigError" ? ExitCode::BadConfig : ExitCode::Usage);
}

/// An empty value is most often a shell variable that is not set.
static Status checkNotEmpty(const CLI::App &command) {
  for (const CLI::Option *option : command.get_options())
    for (const std::string &value : option->results())
      if (value.empty())
        return Status::error(ExitCode::Usage, fmt::format("{} has an empty value; give one or leave the option out", option->get_name()));
  return Status::ok();
}

/// CLI11 would read a pipe or a device for ever.
static Status checkConfigFile(int argc, char **argv) {
  for (int i = 1; i < argc; ++i) {
    std::string_view argument = argv[i];
    std::string path = argument == "--config" && i + 1 < argc ? argv[i + 1] : argument.starts_with("--config=") ? std::string(argument.substr(9)) : "";
    if (!path.empty())
      if (Result<MappedFile> file = MappedFile::open(path); !file.isOk())
        return file.status();
  }
  return Status::ok();
}

static int report(const Status &status) {
  if (!status.isOk())
    fmt::print(stderr, "tapeout: {}\n", status.message());
  return static_cast<int>(status.code());
}

int main(int argc, char **argv) {
  CLI::App app("Tapeout compiles a model graph into one training executable.", "tapeout");
  app.set_version_flag("--version", "tapeout " TAPEOUT_VERSION);
  app.require_subcommand(1);
  app.fallthrough();
  app.set_config("--config", "", "Read options from a TOML file with one [section] per command");
  app.allow_config_extras(CLI::config_extras_mode::error);

  if (Status status = checkConfigFile(argc, argv); !status.isOk())
    return report(status);
  std::vector<std::pair<std::string, cli::Action>> actions;
  actions.emplace_back("model", cli::addModelCommand(app));
  actions.emplace_back("compile", cli::addCompileCommand(app));
  actions.emplace_back("inspect", cli::addInspectCommand(app));
  actions.emplace_back("interpret", cli::addInterpretCommand(app));
  actions.emplace_back("bench", cli::addBenchCommand(app));
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError &error) {
    return usageError(error, app);
  }
  for (auto &[name, action] : actions)
    if (CLI::App *command = app.get_subcommand(name); command->parsed()) {
      Status status = checkNotEmpty(*command);
      if (status.isOk())
        status = action();
      if (status.isOk() && (std::fflush(stdout) != 0 || std::ferror(stdout)))
        status = Status::error(ExitCode::WriteFailed, "cannot write to the standard output");
      return report(status);
    }
  return static_cast<int>(ExitCode::Usage);
}
