// tapeout compile: model file in, training executable out.
#include "tools/tapeout/Commands.h"
#include "tools/tapeout/CompileArguments.h"

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <memory>

namespace tapeout::cli {

namespace {

Status compile(const CompileArguments &arguments, const std::string &output, bool withRunner) {
  TAPEOUT_RETURN_IF_ERROR(arguments.checkOutput(output));
  Result<CompileSummary> summary = compileTo(arguments, output, withRunner);
  if (!summary.isOk())
    return summary.status();
  auto mebibytes = [](int64_t bytes) { return static_cast<double>(bytes) / (1 << 20); };
  fmt::print("{}: for {}, batch {}; passes {:.2f} s, kernels {:.2f} s; memory {:.1f} MiB parameters and state, {:.1f} MiB "
             "activations\n",
             output, summary->target, summary->batch, summary->passSeconds, summary->kernelSeconds,
             mebibytes(summary->persistentBytes), mebibytes(summary->arenaBytes));
  return Status::ok();
}

} // namespace

Action addCompileCommand(CLI::App &app) {
  struct State {
    CompileArguments arguments;
    std::string output;
    bool planOnly = false;
  };
  auto state = std::make_shared<State>();
  CLI::App *command = app.add_subcommand("compile", "Compile a model file into a training executable");
  state->arguments.addTo(*command);
  command->add_option("-o,--output", state->output, "Executable to write")->required();
  command->add_flag("--plan-only", state->planOnly,
                    "Leave out the program that runs the plan: `tapeout-runner --plan FILE` runs it, one runner for all");
  return [state] { return compile(state->arguments, state->output, !state->planOnly); };
}

} // namespace tapeout::cli
