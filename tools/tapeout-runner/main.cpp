// The runner: with a compiled model appended to it, it is that model's training executable.
#include "tools/tapeout-runner/Run.h"

#include <fmt/format.h>

#include <csignal>
#include <cstdio>
#include <exception>

int main(int argc, char **argv) {
  try {
    std::signal(SIGXFSZ, SIG_IGN); // a file that may not grow is then an error of the write
    tapeout::Status status = tapeout::runner::run(argc, argv);
    if (status.isOk() && (std::fflush(stdout) != 0 || std::ferror(stdout)))
      status = tapeout::Status::error(tapeout::ExitCode::WriteFailed, "cannot write to the standard output");
    if (!status.isOk())
      fmt::print(stderr, "error: {}\n", status.message());
    return static_cast<int>(status.code());
  } catch (const std::exception &error) { // out of memory, or a library's exception that should have been caught
    fmt::print(stderr, "error: {}\n", error.what());
    return static_cast<int>(tapeout::ExitCode::Failed);
  }
}
