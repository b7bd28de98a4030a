#include "tools/driver/Compiler.h"

#include "codegen/PlanWriter.h"
#include "frontend/ImportGraph.h"
#include "ir/plan/Plan.h"
#include "ir/tape/Target.h"
#include "runtime/base/AtomicFile.h"
#include "runtime/base/Package.h"
#include "tools/driver/KernelCompilation.h"
#include "tools/driver/Weights.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/Pass/PassInstrumentation.h"
#include "mlir/Pass/PassManager.h"

#include "llvm/Support/FileSystem.h"
#include "llvm/Support/raw_ostream.h"

#include <fmt/format.h>

#include <thread>

using namespace mlir;

namespace tapeout::driver {

int64_t defaultBatch(frontend::Task task) { return frontend::readsTokens(task) ? 12 : 64; }

std::map<Hyperparameter, double> hyperparameterDefaults(const CompileOptions &options) {
  const std::string &optimizer = options.training.optimizer;
  bool adam = optimizer == "adamw" || optimizer == "adam";
  std::map<Hyperparameter, double> values = {
      {Hyperparameter::LearningRate, adam ? 1e-3 : 1e-2},
      {Hyperparameter::MinLearningRateRatio, 0},
      {Hyperparameter::Schedule, static_cast<double>(ScheduleKind::Constant)},
      {Hyperparameter::WarmupSteps, 0},
      {Hyperparameter::TotalSteps, 1000},
      {Hyperparameter::WeightDecay, optimizer == "adamw" ? 1e-2 : 0},
      {Hyperparameter::ClipNorm, 0},
      {Hyperparameter::Seed, 1},
  };
  if (adam) {
    values[Hyperparameter::Beta1] = 0.9;
    values[Hyperparameter::Beta2] = 0.999;
    values[Hyperparameter::Epsilon] = 1e-8;
  } else if (optimizer != "sgd") {
    values[Hyperparameter::Momentum] = 0.9;
  }
  for (auto [name, value] : options.overrides)
    values[name] = value;
  return values;
}

namespace {

/// Writes the module after each pass to a numbered file.
class IrSaver : public PassInstrumentation {
public:
  IrSaver(std::string folder, Status &status) : folder_(std::move(folder)), status_(status) {}
  void runAfterPass(Pass *pass, Operation *op) override {
    if (!isa<ModuleOp>(op))
      return;
    std::string text;
    llvm::raw_string_ostream(text) << *op;
    if (status_.isOk())
      status_ = writeFile(fmt::format("{}/{:02}-{}.mlir", folder_, count_++, pass->getArgument().str()), text);
  }

private:
  std::string folder_;
  Status &status_; ///< of the first file that could not be written
  int count_ = 0;
};

/// One sentence with the layer it is about, then a line per note. What is about the whole model names no layer.
std::string render(Diagnostic &diagnostic, StringRef model) {
  std::string text = diagnostic.str();
  StringRef layer = tape::layerName(diagnostic.getLocation());
  if (!layer.empty() && layer != model && text.find(layer.str()) == std::string::npos)
    text = fmt::format("layer '{}': {}", layer.str(), text);
  for (Diagnostic &note : diagnostic.getNotes())
    text += "\n  " + note.str();
  return text;
}

} // namespace

Compilation::Compilation(const frontend::Graph &graph, const CompileOptions &options) : graph_(graph), options_(options) {
  if (options_.batch == 0)
    options_.batch = defaultBatch(graph.task);
  if (options_.threads == 0)
    options_.threads = std::max(1u, std::thread::hardware_concurrency());
  DialectRegistry registry;
  registry.insert<tape::TapeDialect, plan::PlanDialect, func::FuncDialect, arith::ArithDialect, math::MathDialect>();
  context_ = std::make_unique<MLIRContext>(registry, MLIRContext::Threading::DISABLED);
  context_->loadAllAvailableDialects();
  context_->printOpOnDiagnostic(false); // users read layer names, not IR
}

Compilation::~Compilation() = default;

Status Compilation::collect(const std::function<LogicalResult()> &body) {
  std::string message;
  ScopedDiagnosticHandler handler(context_.get(), [&](Diagnostic &diagnostic) {
    if (diagnostic.getSeverity() == DiagnosticSeverity::Error)
      message += (message.empty() ? "" : "\n") + render(diagnostic, graph_.name);
    else if (diagnostic.getSeverity() == DiagnosticSeverity::Warning)
      fmt::print(stderr, "warning: {}\n", render(diagnostic, graph_.name));
    return success();
  });
  if (succeeded(body()))
    return Status::ok();
  return Status::error(ExitCode::Failed, message.empty() ? "the compiler failed without saying why" : message);
}

Status Compilation::import() {
  Status status = collect([&] {
    module_ = frontend::importGraph(*context_, graph_, {options_.batch, options_.freeze});
    if (module_ && options_.target.name != "cpu")
      (*module_)->setAttr(tape::kTargetAttr, StringAttr::get(context_.get(), options_.target.name));
    return success(static_cast<bool>(module_));
  });
  return status.isOk() ? status : Status::error(ExitCode::BadData, status.message());
}

Status Compilation::runPasses(const std::string &lastPass) {
  if (!options_.saveIr.empty())
    if (std::error_code error = llvm::sys::fs::create_directories(options_.saveIr))
      return Status::error(ExitCode::CannotCreate, fmt::format("cannot create the folder {}: {}", options_.saveIr, error.message()));
  TrainingOptions training = options_.training;
  training.hopper = options_.target.isHopper();
  training.attentionHeadSize = options_.target.attentionHeadSize();
  std::vector<PipelineStep> steps = buildPipeline(training);
  PassManager manager(context_.get(), ModuleOp::getOperationName());
  bool found = lastPass.empty();
  for (PipelineStep &step : steps) {
    bool last = step.name() == lastPass;
    manager.addPass(std::move(step.pass));
    if (last) {
      found = true;
      break;
    }
  }
  if (!found)
    return Status::error(ExitCode::Usage, fmt::format("there is no pass '{}'; --list-passes shows them", lastPass));
  Status saved;
  if (!options_.saveIr.empty())
    manager.addInstrumentation(std::make_unique<IrSaver>(options_.saveIr, saved));
  TAPEOUT_RETURN_IF_ERROR(collect([&] { return manager.run(*module_); }));
  return saved;
}

Status Compilation::writeExecutable(const std::string &runner, const std::string &modelFile, const std::string &output) {
  CompiledKernels kernels;
  std::string plan;
  Status status = collect([&]() -> LogicalResult {
    auto compiled = compileKernels(*module_, options_);
    if (failed(compiled))
      return failure();
    kernels = std::move(*compiled);

    codegen::PlanInfo info;
    info.modelName = graph_.name;
    info.task = static_cast<uint8_t>(graph_.task);
    info.batch = options_.batch;
    info.context = graph_.context;
    info.vocabulary = graph_.vocabulary;
    info.maskToken = graph_.maskToken;
    info.ignoreIndex = options_.training.ignoreIndex;
    info.target = options_.target.name;
    info.options = options_.describe;
    info.optimizer = options_.training.optimizer;
    info.modules = std::move(kernels.modules);
    info.workspaceBytes = kernels.workspaceBytes;
    for (auto [name, value] : hyperparameterDefaults(options_))
      info.defaults.push_back({std::string(kHyperparameterNames[static_cast<size_t>(name)]), value});
    auto bytes = codegen::writePlan(*module_, kernels.records, info);
    if (failed(bytes))
      return failure();
    plan = std::move(*bytes);
    return success();
  });
  TAPEOUT_RETURN_IF_ERROR(status);
  assembler_ = kernels.assembler;

  auto bytesOf = [](const std::string &text) {
    return std::span<const uint8_t>(reinterpret_cast<const uint8_t *>(text.data()), text.size());
  };
  std::vector<SectionSource> sections = {{SectionKind::Plan, "", bytesOf(plan), ""}};
  if (!kernels.sharedObject.empty())
    sections.push_back({SectionKind::CpuKernels, "", bytesOf(kernels.sharedObject), ""});
  TemporaryWeights weights;
  TAPEOUT_RETURN_IF_ERROR(weights.collect(graph_, modelFile, output));
  if (!weights.path().empty())
    sections.push_back({SectionKind::Weights, "", {}, weights.path()});
  return writePackage(runner, sections, output);
}

} // namespace tapeout::driver
