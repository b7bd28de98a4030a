// tapeout model: lists the built-in models and writes their files.
#include "tools/tapeout/Commands.h"

#include "frontend/ModelFile.h"
#include "frontend/models/Models.h"

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <memory>

namespace tapeout::cli {

namespace {

struct ModelArguments {
  std::string name, output;
  frontend::ModelOptions options;
};

Status listAll() {
  for (const frontend::ModelInfo &info : frontend::listModels()) {
    std::string options;
    for (std::string_view option : info.options)
      options += fmt::format(" --{}", option);
    fmt::print("{:<12} {}\n{:<12}  {}\n", info.name, info.description, "", options);
  }
  return Status::ok();
}

Status writeModelFile(const ModelArguments &arguments) {
  if (arguments.name == "list")
    return listAll();
  if (arguments.output.empty())
    return Status::error(ExitCode::Usage, "give the model file to write with -o, for example -o model.tape");
  Result<frontend::Graph> graph = frontend::buildModel(arguments.name, arguments.options);
  if (!graph.isOk())
    return graph.status();
  TAPEOUT_RETURN_IF_ERROR(frontend::writeModel(*graph, arguments.output));
  int64_t parameters = 0;
  for (const frontend::Parameter &parameter : graph->parameters) {
    int64_t count = 1;
    for (int64_t extent : parameter.type.shape)
      count *= extent;
    parameters += count;
  }
  fmt::print("{}: {} layers' ops, {} parameters\n", arguments.output, graph->nodes.size(), parameters);
  return Status::ok();
}

} // namespace

Action addModelCommand(CLI::App &app) {
  auto arguments = std::make_shared<ModelArguments>();
  CLI::App *command = app.add_subcommand("model", "List the built-in models or write one as a model file");
  command->add_option("name", arguments->name, "A model, or `list`")->required();
  command->add_option("-o,--output", arguments->output, "Model file to write");
  frontend::ModelOptions &options = arguments->options;
  command->add_option("--layers", options.layers, "Transformer blocks");
  command->add_option("--heads", options.heads, "Attention heads");
  command->add_option("--kv-heads", options.keyHeads, "Heads of keys and values, for grouped-query attention (default: as --heads)");
  command->add_option("--width", options.width, "Width of the residual stream, or filters of the first convolution");
  command->add_option("--context", options.context, "Tokens per sample");
  command->add_option("--vocab", options.vocabulary, "Size of the vocabulary");
  command->add_option("--mask-token", options.maskToken, "Token that hides others (default of bert: the last of the vocabulary)");
  command->add_option("--patch", options.patch, "Height and width of a patch");
  command->add_option("--inputs", options.inputs, "Inputs of an mlp");
  command->add_option("--hidden", options.hidden, "Widths of an mlp's hidden layers, separated by commas; width of a llama's MLP")->delimiter(',');
  command->add_option("--classes", options.classes, "Classes of a classifier");
  command->add_option("--image", options.image, "Height and width of the images");
  command->add_option("--channels", options.channels, "Channels of the images");
  command->add_option("--dropout", options.dropout, "Probability that training drops an activation");
  return [arguments] { return writeModelFile(*arguments); };
}

} // namespace tapeout::cli
