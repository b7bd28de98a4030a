#include "tools/driver/Interpretation.h"

#include "ir/tape/Tape.h"
#include "runtime/base/BFloat16.h"
#include "runtime/base/Philox.h"
#include "runtime/base/Safetensors.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

#include <fmt/format.h>

#include <cstring>

using namespace mlir;

namespace tapeout::driver {

using codegen::reference::Interpreter;
using codegen::reference::Precision;
using codegen::reference::Tensor;

namespace {

StringRef attributeOf(func::FuncOp func, unsigned argument, StringRef name) {
  auto attribute = func.getArgAttrOfType<StringAttr>(argument, name);
  return attribute ? attribute.getValue() : "";
}

Tensor zeros(RankedTensorType type) {
  return {type.getElementType(), type.getShape().vec(), std::vector<double>(type.getNumElements(), 0.0)};
}

/// The same numbers as runtime/State.cpp: drawn in double and rounded to the parameter's type, f32.
Tensor initialTensor(RankedTensorType type, DictionaryAttr init, uint64_t seed) {
  Tensor tensor = zeros(type);
  StringRef kind = init.getAs<StringAttr>("kind").getValue();
  double a = init.getAs<FloatAttr>("a").getValueAsDouble(), b = init.getAs<FloatAttr>("b").getValueAsDouble();
  RandomStream stream{seed, static_cast<uint64_t>(init.getAs<IntegerAttr>("stream").getInt())};
  for (size_t i = 0; i < tensor.values.size(); ++i) {
    double value = 0;
    if (kind == "ones")
      value = 1;
    else if (kind == "constant")
      value = a;
    else if (kind == "normal")
      value = a + b * stream.normal(i);
    else if (kind == "uniform")
      value = a + (b - a) * stream.uniform(i);
    tensor.values[i] = static_cast<float>(value);
  }
  return tensor;
}

/// One function of the module with the state it carries from run to run.
class Runner {
public:
  Runner(func::FuncOp func, Interpreter interpreter) : func_(func), interpreter_(std::move(interpreter)) {}

  static FailureOr<Runner> create(ModuleOp module, Precision precision, StringRef function = "step") {
    auto func = module.lookupSymbol<func::FuncOp>(function);
    auto interpreter = Interpreter::create(func, precision);
    if (failed(interpreter))
      return failure();
    return Runner(func, std::move(*interpreter));
  }

  func::FuncOp func() { return func_; }

  /// Arguments by name from the state and the inputs.
  FailureOr<std::vector<Tensor>> run(const NamedTensors &state, const NamedTensors &inputs) {
    std::vector<Tensor> arguments;
    for (unsigned i = 0; i < func_.getNumArguments(); ++i) {
      std::string name = attributeOf(func_, i, tape::kNameAttr).str();
      bool isInput = attributeOf(func_, i, tape::kRoleAttr) == tape::kRoleInput;
      const NamedTensors &source = isInput ? inputs : state;
      auto it = source.find(name);
      if (it == source.end())
        return func_.emitError() << "no value for argument '" << name << "'";
      arguments.push_back(it->second);
      // Types belong to a context, and every compilation has its own.
      arguments.back().elementType = cast<RankedTensorType>(func_.getArgumentTypes()[i]).getElementType();
    }
    return interpreter_.run(arguments);
  }

private:
  func::FuncOp func_;
  Interpreter interpreter_;
};

} // namespace

struct Interpretation::State {
  frontend::Graph graph;
  CompileOptions options;
  Precision precision;
  std::unique_ptr<Compilation> stepCompilation, gradientCompilation;
  std::optional<Runner> stepRunner, gradientRunner;
  NamedTensors tensors; ///< parameters, optimizer state, counter, config

  /// Runs a function; what it updates becomes part of the state, the rest is returned by name.
  Result<std::map<std::string, double>> advance(Runner &runner, const NamedTensors &inputs) {
    func::FuncOp func = runner.func();
    auto results = runner.run(tensors, inputs);
    if (failed(results))
      return Status::error(ExitCode::Failed, fmt::format("the interpreter could not run @{}", func.getName().str()));
    std::map<std::string, double> metrics;
    for (auto [i, result] : llvm::enumerate(*results)) {
      if (auto updates = func.getResultAttrOfType<IntegerAttr>(i, tape::kUpdatesAttr))
        tensors[attributeOf(func, updates.getInt(), tape::kNameAttr).str()] = std::move(result);
      else if (auto name = func.getResultAttrOfType<StringAttr>(i, tape::kNameAttr))
        metrics[name.str()] = result.values.front();
    }
    return metrics;
  }

  /// As the runtime does whenever parameters were set from outside.
  Status prepare() {
    if (!stepCompilation->module().lookupSymbol("prepare"))
      return Status::ok();
    auto runner = Runner::create(stepCompilation->module(), precision, "prepare");
    if (failed(runner))
      return Status::error(ExitCode::Failed, "the interpreter cannot run this model's @prepare");
    return advance(*runner, {}).status();
  }

  Result<std::unique_ptr<Compilation>> compile(const std::string &lastPass) {
    auto compilation = std::make_unique<Compilation>(graph, options);
    Status status = compilation->import();
    if (status.isOk())
      status = compilation->runPasses(lastPass);
    if (!status.isOk())
      return status;
    return compilation;
  }
};

Interpretation::Interpretation(std::unique_ptr<State> state) : state_(std::move(state)) {}
Interpretation::~Interpretation() = default;

Result<std::unique_ptr<Interpretation>> Interpretation::create(const frontend::Graph &graph, const CompileOptions &options,
                                                               Precision precision) {
  auto state = std::make_unique<State>();
  state->graph = graph;
  state->options = options;
  state->precision = precision;
  auto compilation = state->compile(options.training.precision == "fp32" ? "verify-train-step" : "verify-precision");
  if (!compilation.isOk())
    return compilation.status();
  state->stepCompilation = std::move(*compilation);
  auto runner = Runner::create(state->stepCompilation->module(), precision);
  if (failed(runner))
    return Status::error(ExitCode::Failed, "the interpreter cannot run this model's training step");
  state->stepRunner.emplace(std::move(*runner));

  auto defaults = hyperparameterDefaults(options);
  func::FuncOp step = state->stepRunner->func();
  for (unsigned i = 0; i < step.getNumArguments(); ++i) {
    StringRef role = attributeOf(step, i, tape::kRoleAttr);
    std::string name = attributeOf(step, i, tape::kNameAttr).str();
    auto type = cast<RankedTensorType>(step.getArgumentTypes()[i]);
    if (role == tape::kRoleInput)
      continue;
    Tensor &tensor = state->tensors[name] = zeros(type);
    if (auto init = step.getArgAttrOfType<DictionaryAttr>(i, tape::kInitAttr))
      tensor = initialTensor(type, init, static_cast<uint64_t>(defaults[Hyperparameter::Seed]));
    if (role == tape::kRoleConfig)
      for (auto [field, value] : defaults)
        tensor.values[static_cast<size_t>(field)] = value;
  }
  TAPEOUT_RETURN_IF_ERROR(state->prepare());
  return std::unique_ptr<Interpretation>(new Interpretation(std::move(state)));
}

std::map<std::string, RankedTensorType> Interpretation::inputTypes() {
  std::map<std::string, RankedTensorType> types;
  func::FuncOp step = state_->stepRunner->func();
  for (unsigned i = 0; i < step.getNumArguments(); ++i)
    if (attributeOf(step, i, tape::kRoleAttr) == tape::kRoleInput)
      types[attributeOf(step, i, tape::kNameAttr).str()] = cast<RankedTensorType>(step.getArgumentTypes()[i]);
  return types;
}

Result<std::map<std::string, double>> Interpretation::step(const NamedTensors &inputs) {
  return state_->advance(*state_->stepRunner, inputs);
}

const Tensor &Interpretation::tensor(const std::string &name) const { return state_->tensors.at(name); }

Result<NamedTensors> Interpretation::gradients(const NamedTensors &inputs) {
  if (!state_->gradientRunner) {
    auto compilation = state_->compile("build-backward");
    if (!compilation.isOk())
      return compilation.status();
    state_->gradientCompilation = std::move(*compilation);
    auto runner = Runner::create(state_->gradientCompilation->module(), state_->precision);
    if (failed(runner))
      return Status::error(ExitCode::Failed, "the interpreter cannot run this model's gradients");
    state_->gradientRunner.emplace(std::move(*runner));
  }
  func::FuncOp func = state_->gradientRunner->func();
  auto results = state_->gradientRunner->run(state_->tensors, inputs);
  if (failed(results))
    return Status::error(ExitCode::Failed, "the interpreter could not run the gradients");
  NamedTensors gradients;
  for (auto [i, result] : llvm::enumerate(*results))
    if (auto argument = func.getResultAttrOfType<IntegerAttr>(i, tape::kGradientOfAttr))
      gradients[attributeOf(func, argument.getInt(), tape::kNameAttr).str()] = std::move(result);
  return gradients;
}

namespace {

double elementAt(TensorType type, const uint8_t *source) {
  auto load = [&](auto value) {
    std::memcpy(&value, source, sizeof value);
    return value;
  };
  switch (type) {
  case TensorType::F64:
    return load(double());
  case TensorType::F32:
    return load(float());
  case TensorType::BF16:
    return bfloat16ToFloat(load(uint16_t()));
  case TensorType::F16:
    return halfToFloat(load(uint16_t()));
  case TensorType::I64:
    return static_cast<double>(load(int64_t()));
  case TensorType::I32:
    return load(int32_t());
  default:
    return *source;
  }
}

} // namespace

Status Interpretation::importParameters(const std::string &path) {
  Result<Safetensors> file = Safetensors::open(path);
  if (!file.isOk())
    return file.status();
  std::string wrong;
  for (const frontend::Parameter &parameter : state_->graph.parameters) {
    const TensorEntry *entry = file->find(parameter.name);
    if (!entry || entry->shape != parameter.type.shape) {
      wrong += fmt::format("{}{} {}", wrong.empty() ? "" : ", ", parameter.name, entry ? "has another shape" : "is missing");
      continue;
    }
    std::span<const uint8_t> bytes = file->data(*entry);
    std::vector<double> &values = state_->tensors[parameter.name].values;
    for (size_t i = 0; i < values.size(); ++i)
      values[i] = elementAt(entry->type, bytes.data() + i * elementSize(entry->type));
  }
  if (!wrong.empty())
    return Status::error(ExitCode::BadData, fmt::format("{} does not fit model {}: {}", path, state_->graph.name, wrong));
  return state_->prepare();
}

Status Interpretation::exportParameters(const std::string &path) const {
  NamedTensors parameters;
  for (const frontend::Parameter &parameter : state_->graph.parameters)
    parameters[parameter.name] = state_->tensors.at(parameter.name);
  return writeTensors(parameters, path);
}

Status writeTensors(const NamedTensors &tensors, const std::string &path) {
  std::vector<TensorDeclaration> declarations;
  for (const auto &[name, tensor] : tensors)
    declarations.push_back({name, TensorType::F64, tensor.shape});
  Result<SafetensorsWriter> writer = SafetensorsWriter::create(path, declarations);
  if (!writer.isOk())
    return writer.status();
  for (const auto &[name, tensor] : tensors)
    TAPEOUT_RETURN_IF_ERROR(writer->write(tensor.values.data(), tensor.values.size() * sizeof(double)));
  return writer->commit();
}

} // namespace tapeout::driver
