// The order of all passes: read this first.
#include "passes/Pipelines.h"

#include "passes/Passes.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/PassRegistry.h"
#include "mlir/Transforms/Passes.h"

using namespace mlir;

namespace tapeout {

namespace {

class Pipeline {
public:
  Pipeline(std::vector<PipelineStep> &steps, const TrainingOptions &options) : steps_(steps), options_(options) {}
  void stage(StringRef name) { stage_ = name; }
  void add(std::unique_ptr<Pass> pass) { steps_.push_back({stage_, std::move(pass)}); }
  void addOptional(std::unique_ptr<Pass> pass) {
    add(std::move(pass));
    assert(llvm::is_contained(optionalPasses, steps_.back().name()) && "users can name it");
    if (llvm::is_contained(options_.skipped, steps_.back().name()))
      steps_.pop_back();
  }

private:
  std::vector<PipelineStep> &steps_;
  const TrainingOptions &options_;
  StringRef stage_;
};

} // namespace

std::vector<PipelineStep> buildPipeline(const TrainingOptions &options) {
  std::vector<PipelineStep> steps;
  Pipeline pipeline(steps, options);

  // From the importer's @forward (and @predict) to a graph that later stages can rely on.
  pipeline.stage("import");
  pipeline.add(createCanonicalizerPass());
  pipeline.addOptional(createElideTransposes()); // before differentiate: the gradients then need no transposes either
  pipeline.add(createVerifyImported());

  // One graph holds the whole step: forward, loss, backward, clipping, optimizer, schedule, counter.
  pipeline.stage("differentiate");
  AttachLossOptions loss;
  loss.loss = options.loss;
  loss.ignoreIndex = options.ignoreIndex;
  loss.labelSmoothing = options.labelSmoothing;
  pipeline.add(createAttachLoss(loss));
  pipeline.add(createBuildBackward());
  if (options.lossScale != "none") { // here, because gradients are unscaled before they are clipped
    InsertLossScalingOptions scaling;
    scaling.policy = options.lossScale;
    pipeline.add(createInsertLossScaling(scaling));
  }
  pipeline.add(createClipGradients());
  AttachOptimizerOptions optimizer;
  optimizer.optimizer = options.optimizer;
  optimizer.noDecay = options.noDecay;
  pipeline.add(createAttachOptimizer(optimizer));
  pipeline.add(createCanonicalizerPass());
  pipeline.add(createCSEPass()); // before decompose: pieces shared later would live from forward to backward
  pipeline.add(createVerifyTrainStep());

  // Before fusion: a cast is an elementwise op, which costs nothing in a kernel.
  if (options.precision != "fp32") {
    pipeline.stage("precision");
    InsertAmpCastsOptions amp;
    amp.precision = options.precision;
    amp.level = options.ampLevel;
    amp.keepFp32 = options.keepFp32;
    pipeline.add(createInsertAmpCasts(amp));
    pipeline.add(createVerifyPrecision());
  }

  // Semantic ops have served the gradient; from here on every op is a future kernel or a library call.
  pipeline.stage("fuse");
  ChunkLossOptions chunks; // after the casts: chunks read slices of what is cast once
  chunks.chunks = options.lossChunks;
  pipeline.add(createChunkLoss(chunks));
  SelectProductKernelsOptions products;
  products.hopper = options.hopper;
  pipeline.addOptional(createSelectProductKernels(products));
  SelectAttentionKernelsOptions kernels;
  kernels.hopper = options.hopper;
  pipeline.addOptional(createSelectAttentionKernels(kernels));
  SelectLibraryAttentionOptions attention;
  attention.headSize = options.attentionHeadSize;
  attention.deterministic = options.deterministic;
  pipeline.addOptional(createSelectLibraryAttention(attention));
  pipeline.add(createDecompose());
  if (options.precision != "fp32" && !options.lowPrecisionWindows)
    pipeline.add(createWidenWindows()); // after decompose, which may cut a convolution into terms
  pipeline.add(createCanonicalizerPass());
  if (options.precision != "fp32")
    pipeline.add(createReadRounded()); // after decompose, which makes the conversions and the sums
  if (options.fusion)
    pipeline.addOptional(createRecomputeFromProducts());
  FormFusionGroupsOptions fusion;
  fusion.merge = options.fusion;
  pipeline.add(createFormFusionGroups(fusion));
  if (options.fusion) {
    pipeline.addOptional(createFuseEpilogues());
    pipeline.addOptional(createFuseMultiTensor());
  }
  pipeline.add(createVerifyFusionGroups());

  // Values become memory, ops become instructions.
  pipeline.stage("schedule");
  pipeline.add(createLowerToPlan());
  pipeline.add(createPlanMemory());
  pipeline.add(createVerifyPlan());
  return steps;
}

void registerPassesAndPipelines() {
  registerTapeoutPasses();
  registerCanonicalizerPass();
  registerCSEPass();
}

} // namespace tapeout
