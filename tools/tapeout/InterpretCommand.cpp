// tapeout interpret: trains with the reference interpreter, to check an executable or a kernel against it.
#include "tools/tapeout/Commands.h"
#include "tools/tapeout/CompileArguments.h"

#include "runtime/io/DataLoader.h"
#include "tools/driver/Interpretation.h"

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <cstring>
#include <memory>

namespace tapeout::cli {

namespace {

struct InterpretArguments {
  CompileArguments compile;
  std::string data, labels, init, exportPath, gradients;
  uint64_t steps = 10;
  bool sequential = false;
};

ElementType elementTypeOf(mlir::Type type) {
  return type.isInteger(32) ? ElementType::I32 : type.isInteger(64) ? ElementType::I64 : ElementType::F32;
}

Result<std::unique_ptr<rt::DataLoader>> openData(const InterpretArguments &arguments, const CompileInput &input,
                                                 driver::Interpretation &interpretation) {
  rt::DataSpec spec;
  spec.dataPath = arguments.data;
  spec.labelsPath = arguments.labels;
  spec.task = static_cast<rt::DataTask>(input.graph.task);
  spec.batch = input.options.batch;
  spec.context = input.graph.context;
  spec.vocabulary = input.graph.vocabulary;
  spec.maskToken = input.graph.maskToken;
  spec.ignoreIndex = input.options.training.ignoreIndex;
  spec.seed = static_cast<uint64_t>(driver::hyperparameterDefaults(input.options)[Hyperparameter::Seed]);
  spec.shuffle = !arguments.sequential;
  for (auto [name, type] : interpretation.inputTypes()) {
    ElementType element = elementTypeOf(type.getElementType());
    spec.inputs.push_back({name, element, static_cast<uint64_t>(type.getNumElements()) * elementSize(element), type.getShape().vec()});
  }
  return rt::DataLoader::create(spec);
}

driver::NamedTensors toTensors(const rt::Batch &batch, driver::Interpretation &interpretation) {
  driver::NamedTensors tensors;
  for (auto [name, type] : interpretation.inputTypes()) {
    std::span<const uint8_t> bytes = batch.find(name);
    codegen::reference::Tensor tensor{type.getElementType(), type.getShape().vec(), {}};
    ElementType element = elementTypeOf(type.getElementType());
    for (int64_t i = 0; i < type.getNumElements(); ++i) {
      const uint8_t *source = bytes.data() + i * elementSize(element);
      auto load = [&](auto value) {
        std::memcpy(&value, source, sizeof value);
        return static_cast<double>(value);
      };
      tensor.values.push_back(element == ElementType::I32 ? load(int32_t()) : element == ElementType::I64 ? load(int64_t()) : load(float()));
    }
    tensors[name] = std::move(tensor);
  }
  return tensors;
}

Status interpret(const InterpretArguments &arguments) {
  Result<CompileInput> input = arguments.compile.load();
  if (!input.isOk())
    return input.status();
  input->options.overrides.try_emplace(Hyperparameter::TotalSteps, static_cast<double>(arguments.steps));
  auto precision = arguments.compile.precision == "fp64" ? codegen::reference::Precision::F64 : codegen::reference::Precision::F32;
  auto interpretation = driver::Interpretation::create(input->graph, input->options, precision);
  if (!interpretation.isOk())
    return interpretation.status();
  if (!arguments.init.empty())
    TAPEOUT_RETURN_IF_ERROR((*interpretation)->importParameters(arguments.init));
  auto loader = openData(arguments, *input, **interpretation);
  if (!loader.isOk())
    return loader.status();

  for (uint64_t step = 0; step < arguments.steps; ++step) {
    auto batch = (*loader)->next();
    if (!batch.isOk())
      return batch.status();
    if (!*batch)
      return Status::error(ExitCode::BadData, fmt::format("{} holds only {} steps in order; ask for fewer with --steps", arguments.data, step));
    driver::NamedTensors inputs = toTensors(**batch, **interpretation);
    if (step == 0 && !arguments.gradients.empty()) {
      auto gradients = (*interpretation)->gradients(inputs);
      if (!gradients.isOk())
        return gradients.status();
      TAPEOUT_RETURN_IF_ERROR(driver::writeTensors(*gradients, arguments.gradients));
    }
    auto metrics = (*interpretation)->step(inputs);
    if (!metrics.isOk())
      return metrics.status();
    std::string scaling;
    if (metrics->contains("loss_scale"))
      scaling = fmt::format(", \"loss_scale\": {:.17g}, \"skipped_steps\": {:.0f}", (*metrics)["loss_scale"], (*metrics)["skipped_steps"]);
    fmt::print("{{\"step\": {}, \"loss\": {:.17g}, \"grad_norm\": {:.17g}, \"lr\": {:.17g}{}}}\n", step + 1, (*metrics)["loss"],
               (*metrics)["grad_norm"], (*metrics)["lr"], scaling);
    std::fflush(stdout);
  }
  return arguments.exportPath.empty() ? Status::ok() : (*interpretation)->exportParameters(arguments.exportPath);
}

} // namespace

Action addInterpretCommand(CLI::App &app) {
  auto arguments = std::make_shared<InterpretArguments>();
  CLI::App *command = app.add_subcommand("interpret", "Train with the slow reference interpreter");
  arguments->compile.precision = "fp64";
  arguments->compile.precisions.push_back("fp64");
  arguments->compile.addTo(*command);
  command->add_option("--data", arguments->data, "Dataset, as for an executable")->required();
  command->add_option("--labels", arguments->labels, "Labels (.npy) of a dataset of arrays");
  command->add_option("--steps", arguments->steps, "Training steps");
  command->add_flag("--sequential", arguments->sequential, "Samples in file order instead of shuffled");
  command->add_option("--init", arguments->init, "Start from the parameters of a safetensors file");
  command->add_option("--export", arguments->exportPath, "Write the final parameters (f64) to a safetensors file");
  command->add_option("--dump-gradients", arguments->gradients, "Write the first step's gradients (f64, before clipping, without mixed precision)");
  return [arguments] { return interpret(*arguments); };
}

} // namespace tapeout::cli
