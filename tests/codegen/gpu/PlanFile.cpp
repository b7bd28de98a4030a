#include "tests/codegen/gpu/PlanFile.h"

#include "codegen/PlanWriter.h"
#include "ir/plan/Plan.h"
#include "ir/tape/Tape.h"
#include "runtime/base/Package.h"
#include "runtime/plan_generated.h"
#include "tools/driver/KernelCompilation.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"

using namespace mlir;

namespace tapeout {
namespace {

LogicalResult lower(ModuleOp module, const TrainingOptions &options) {
  PassManager manager(module.getContext(), ModuleOp::getOperationName());
  bool reached = false;
  for (PipelineStep &step : buildPipeline(options))
    if (reached |= step.stage == "fuse")
      manager.addPass(std::move(step.pass));
  return manager.run(module);
}

} // namespace

LogicalResult writePlanFile(const std::string &path, const std::string &text, const driver::TargetChoice &target,
                            const TrainingOptions &training) {
  DialectRegistry registry;
  registry.insert<tape::TapeDialect, plan::PlanDialect, func::FuncDialect>();
  MLIRContext context(registry);
  OwningOpRef<ModuleOp> module = parseSourceString<ModuleOp>(text, &context);
  if (!module || failed(lower(*module, training)))
    return failure();
  driver::CompileOptions options;
  options.target = target;
  options.threads = 2;
  auto kernels = driver::compileKernels(*module, options);
  if (failed(kernels))
    return failure();
  codegen::PlanInfo info;
  info.modelName = "computations";
  info.task = static_cast<uint8_t>(plan::Task::Regression);
  info.target = target.name;
  info.workspaceBytes = 32 << 20;
  info.modules = std::move(kernels->modules);
  auto bytes = codegen::writePlan(*module, kernels->records, info);
  if (failed(bytes))
    return failure();
  std::vector<SectionSource> sections = {
      {SectionKind::Plan, "", {reinterpret_cast<const uint8_t *>(bytes->data()), bytes->size()}, ""}};
  Status written = writePackage("", sections, path);
  return written.isOk() ? success() : emitError(UnknownLoc::get(&context), written.message());
}

} // namespace tapeout
