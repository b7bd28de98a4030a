// tapeout-bench: measures training executables against each other, on machines without the compiler.
#include "tools/bench/Arguments.h"

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <cstdio>

using namespace tapeout;

int main(int argc, char **argv) {
  CLI::App app("Measures one training executable, or two against each other.", "tapeout-bench");
  bench::Arguments arguments;
  std::vector<std::string> paths;
  app.add_option("executables", paths, "Training executables, one or two")->required()->expected(1, 2);
  app.add_option("--threads", arguments.measure.threads, "Threads of each executable (default: all)")->check(CLI::Range(1, 1024));
  arguments.addTo(app);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError &error) {
    return error.get_exit_code() == 0 ? app.exit(error) : (app.exit(error), static_cast<int>(ExitCode::Usage));
  }
  Status status = bench::compare(bench::subjectsOf(paths), arguments);
  if (status.isOk() && (std::fflush(stdout) != 0 || std::ferror(stdout)))
    status = Status::error(ExitCode::WriteFailed, "cannot write to the standard output");
  if (!status.isOk())
    fmt::print(stderr, "tapeout-bench: {}\n", status.message());
  return static_cast<int>(status.code());
}
