// tapeout inspect: the IR after any pass, as text or as a picture.
#include "runtime/base/AtomicFile.h"
#include "tools/inspect/Inspect.h"
#include "tools/tapeout/Commands.h"
#include "tools/tapeout/CompileArguments.h"

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <cstdio>
#include <memory>

namespace tapeout::cli {

namespace {

struct InspectArguments {
  CompileArguments compile;
  std::string after, format, function, output;
  bool listPasses = false;
};

Status listPasses(const TrainingOptions &options) {
  fmt::print("{:<14} {:<22} {}\n", "STAGE", "PASS", "WHAT IT DOES");
  for (const PipelineStep &step : buildPipeline(options))
    fmt::print("{:<14} {:<22} {}\n", step.stage.str(), step.name().str(), step.pass->getDescription().str());
  return Status::ok();
}

/// --format, or else what the name of the output says.
inspect::Format chooseFormat(const InspectArguments &arguments) {
  auto means = [&](const char *format, std::string_view suffix) {
    return arguments.format.empty() ? arguments.output.ends_with(suffix) : arguments.format == format;
  };
  if (means("svg", ".svg"))
    return inspect::Format::Svg;
  return means("dot", ".dot") ? inspect::Format::Dot : inspect::Format::Text;
}

Status writeOutput(const std::string &text, const std::string &output) {
  if (output.empty()) {
    bool written = std::fwrite(text.data(), 1, text.size(), stdout) == text.size() && std::fflush(stdout) == 0;
    return written ? Status::ok() : Status::error(ExitCode::WriteFailed, "cannot write to the standard output");
  }
  return writeFile(output, text);
}

Status inspectModel(const InspectArguments &arguments) {
  if (arguments.listPasses) {
    TrainingOptions options;
    TAPEOUT_RETURN_IF_ERROR(arguments.compile.setPrecision(options)); // which decides what passes there are
    return listPasses(options);
  }
  if (arguments.compile.model.empty())
    return Status::error(ExitCode::Usage, "give the model file to inspect, or --list-passes");
  TAPEOUT_RETURN_IF_ERROR(arguments.compile.checkOutput(arguments.output));
  Result<CompileInput> input = arguments.compile.load();
  if (!input.isOk())
    return input.status();
  driver::Compilation compilation(input->graph, input->options);
  TAPEOUT_RETURN_IF_ERROR(compilation.import());
  TAPEOUT_RETURN_IF_ERROR(compilation.runPasses(arguments.after));

  std::string last = arguments.after.empty() ? buildPipeline({}).back().name().str() : arguments.after;
  Result<std::string> text = inspect::inspect(compilation.module(), chooseFormat(arguments), arguments.function,
                                              fmt::format("{} after {}", input->graph.name, last));
  if (!text.isOk())
    return text.status();
  return writeOutput(*text, arguments.output);
}

} // namespace

Action addInspectCommand(CLI::App &app) {
  auto arguments = std::make_shared<InspectArguments>();
  CLI::App *command = app.add_subcommand("inspect", "Show the IR after any pass as text or as a picture");
  arguments->compile.addTo(*command);
  command->get_option("model")->required(false); // --list-passes needs none
  command->add_option("--after", arguments->after,
                      "Pass to stop after; the first of this name (default: the last pass)");
  command
      ->add_option("--format", arguments->format,
                   "text (the whole module), dot or svg (default: by the suffix of -o, else text)")
      ->check(CLI::IsMember({"text", "dot", "svg"}));
  command->add_option("--function", arguments->function, "What dot and svg draw: step (default), evaluate or predict");
  command->add_option("-o,--output", arguments->output, "File to write (default: the standard output)");
  command->add_flag("--list-passes", arguments->listPasses, "List the passes in their order");
  return [arguments] { return inspectModel(*arguments); };
}

} // namespace tapeout::cli
