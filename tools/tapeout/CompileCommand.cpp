// tapeout compile: model file in, training executable out.
#include "tools/tapeout/Commands.h"
#include "tools/tapeout/CompileArguments.h"

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <chrono>
#include <memory>

namespace tapeout::cli {

namespace {

Status compile(const CompileArguments &arguments, const std::string &output) {
  auto start = std::chrono::steady_clock::now();
  auto seconds = [&] { return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count(); };
  TAPEOUT_RETURN_IF_ERROR(arguments.checkOutput(output));
  Result<CompileInput> input = arguments.load();
  if (!input.isOk())
    return input.status();
  Result<std::string> runner = findRunner();
  if (!runner.isOk())
    return runner.status();

  driver::Compilation compilation(input->graph, input->options);
  TAPEOUT_RETURN_IF_ERROR(compilation.import());
  TAPEOUT_RETURN_IF_ERROR(compilation.runPasses());
  double passSeconds = seconds();
  TAPEOUT_RETURN_IF_ERROR(compilation.writeExecutable(*runner, arguments.model, output));
  auto bytes = [&](const char *name) {
    return compilation.module()->getAttrOfType<mlir::IntegerAttr>(name).getInt() / double(1 << 20);
  };
  fmt::print("{}: for {}, batch {}; passes {:.2f} s, kernels {:.2f} s; memory {:.1f} MiB parameters and state, {:.1f} MiB activations\n",
             output, arguments.target, input->options.batch, passSeconds, seconds() - passSeconds, bytes("plan.persistent_bytes"),
             bytes("plan.arena_bytes"));
  return Status::ok();
}

} // namespace

Action addCompileCommand(CLI::App &app) {
  struct State {
    CompileArguments arguments;
    std::string output;
  };
  auto state = std::make_shared<State>();
  CLI::App *command = app.add_subcommand("compile", "Compile a model file into a training executable");
  state->arguments.addTo(*command);
  command->add_option("-o,--output", state->output, "Executable to write")->required();
  return [state] { return compile(state->arguments, state->output); };
}

} // namespace tapeout::cli
