// Every pass, its argument (without the `tape-` prefix on tapeout's command line), options and whether it preserves values.
// passes/Pipelines.cpp has the order.
#ifndef TAPEOUT_PASSES_PASSES_TD
#define TAPEOUT_PASSES_PASSES_TD

include "mlir/Pass/PassBase.td"

//===- import ---------------------------------------------------------------------------------------------------------===//

def ElideTransposes : Pass<"tape-elide-transposes", "::mlir::ModuleOp"> {
  let summary = "Lets products read the operand of a transpose by other dimension numbers";
  let description = [{
    Exporters write x W^T as a transpose and a product. A product takes dimensions in any order, so neither it nor its
    gradients need the copy. Value-preserving.
  }];
  let statistics = [Statistic<"elided", "elided-operands", "operands of products that are read without a transpose">];
}

def VerifyImported : Pass<"tape-verify-imported", "::mlir::ModuleOp"> {
  let summary = "Checks what later passes rely on in an imported module";
  let description = [{
    One forward function whose arguments all have a role and a unique name; every op is of the tape dialect, has a form
    on the target and, if it takes a gradient, knows it. Lists all offending layers in one go. Changes nothing.
  }];
}

//===- differentiate --------------------------------------------------------------------------------------------------===//

def AttachLoss : Pass<"tape-attach-loss", "::mlir::ModuleOp"> {
  let summary = "Makes @step and @evaluate out of @forward";
  let description = [{
    @step(parameters, inputs, labels, config, counter) returns the loss (sum over counted positions / their number) and
    gives every random op its key. @evaluate(parameters, inputs, labels) draws nothing, smooths no labels and returns
    sum and count.
    Numerics: defines them.
  }];
  let options = [
    Option<"loss", "loss", "std::string", "\"cross_entropy\"", "cross_entropy or mean_squared_error">,
    Option<"ignoreIndex", "ignore-index", "int64_t", "-100", "label of positions that do not count">,
    Option<"labelSmoothing", "label-smoothing", "double", "0.0", "share of the target that all classes divide among them">,
  ];
  let dependentDialects = ["::tapeout::tape::TapeDialect"];
}

def BuildBackward : Pass<"tape-build-backward", "::mlir::ModuleOp"> {
  let summary = "Appends the gradient of the loss for every trainable parameter to @step";
  let description = [{
    Reverse mode by the op's own rule (DifferentiableOpInterface). Ops without one that a gradient must pass are listed
    in one message. A parameter the loss does not depend on is an error: it would silently never train.
  }];
  let dependentDialects = ["::tapeout::tape::TapeDialect"];
}

def InsertLossScaling : Pass<"tape-insert-loss-scaling", "::mlir::ModuleOp"> {
  let summary = "Scales the loss's gradient, unscales those of the parameters, and skips steps where one is not finite";
  let description = [{
    Directly after build-backward: unscaling comes before clipping, and what the backward phase starts from is still there.
    The scale and the counters of good, bad and skipped steps are device state. Metrics: loss_scale, skipped,
    skipped_steps. Value-preserving where the scale is a power of two and nothing is skipped.
  }];
  let options = [Option<"policy", "policy", "std::string", "\"torch\"", "torch, paddle or a constant scale">];
  let dependentDialects = ["::tapeout::tape::TapeDialect"];
}

def ClipGradients : Pass<"tape-clip-gradients", "::mlir::ModuleOp"> {
  let summary = "Scales all gradients so that their global norm is at most the hyperparameter `clip`";
  let description = [{norm = sqrt(sum g^2); factor = min(1, clip / (norm + 1e-6)), as PyTorch; clip <= 0 switches it off.
    The norm before clipping is the metric grad_norm.}];
  let dependentDialects = ["::tapeout::tape::TapeDialect"];
}

def AttachOptimizer : Pass<"tape-attach-optimizer", "::mlir::ModuleOp"> {
  let summary = "Replaces the gradients of @step by updated parameters, optimizer state and counter";
  let options = [
    Option<"optimizer", "optimizer", "std::string", "\"adamw\"", "adamw, adam, sgd, momentum or nesterov">,
    ListOption<"noDecay", "no-decay", "std::string", "name patterns (* and ?) of parameters without weight decay">,
  ];
  let dependentDialects = ["::tapeout::tape::TapeDialect"];
}

def VerifyTrainStep : Pass<"tape-verify-train-step", "::mlir::ModuleOp"> {
  let summary = "Checks that @step updates each trainable parameter and each state exactly once, and nothing else";
  let description = [{No gradient result is left, every random op has its key, frozen parameters have no update. Changes nothing.}];
}

//===- precision ------------------------------------------------------------------------------------------------------===//

def InsertAmpCasts : Pass<"tape-insert-amp-casts", "::mlir::ModuleOp"> {
  let summary = "Chooses low precision or f32 for each op by its AMP class, and converts operands where it changes";
  let description = [{
    Level O1: parameters stay f32 and each is narrowed once per step, as PyTorch's autocast does. Level O2: the model reads
    low-precision copies of the parameters, and what only parameters flow into is low, the residual for one. Norms and their
    gradients then return as precise a tensor as they read. At both levels the optimizer, its state and the gradients it
    reads are f32. Numerics-changing.
  }];
  let options = [
    Option<"precision", "precision", "std::string", "\"bf16\"", "bf16 or fp16">,
    Option<"level", "level", "std::string", "\"O1\"", "O1 or O2">,
    ListOption<"keepFp32", "keep-fp32", "std::string", "name patterns (* and ?) of layers that stay f32">,
  ];
  let dependentDialects = ["::tapeout::tape::TapeDialect"];
}

def VerifyPrecision : Pass<"tape-verify-precision", "::mlir::ModuleOp"> {
  let summary = "Checks that every op has the precision that its AMP class asks for, and each parameter one cast at most";
  let description = [{The optimizer is f32, copies of trained parameters are updated. Changes nothing.}];
}

//===- fuse -----------------------------------------------------------------------------------------------------------===//

def ChunkLoss : Pass<"tape-chunk-loss", "::mlir::ModuleOp"> {
  let summary = "Computes logits, loss and gradient for a chunk of the rows at a time";
  let description = [{
    Where the loss follows from one product row by row, up to the products that read the logits' gradient. Only one
    chunk's logits are in memory. Gradients of weights are added up chunk by chunk in f32: numerics-changing in the
    order of that sum. The loss and the gradient of the rows are the same numbers.
  }];
  let options = [Option<"chunks", "chunks", "int64_t", "0", "Of the rows; 1: none; 0: as few as memory asks for">];
  let dependentDialects = ["::tapeout::tape::TapeDialect"];
  let statistics = [Statistic<"chunked", "chunks", "chunks that logits are computed in">];
}

def SelectProductKernels : Pass<"tape-select-product-kernels", "::mlir::ModuleOp"> {
  let summary = "Products around a GELU and its gradient by kernels written by hand, where every GPU of the target is a Hopper";
  let description = [{
    The product before GELU gives GELU and its slope; the product that gives GELU's gradient multiplies by the slope and sums
    the bias's gradient. Of 16 bits, where there is enough work for the GPU. Numerics-changing: less is rounded.
  }];
  let dependentDialects = ["::tapeout::tape::TapeDialect"];
  let options = [Option<"hopper", "hopper", "bool", "false", "Whether every GPU of the target is one">];
}

def SelectAttentionKernels : Pass<"tape-select-attention-kernels", "::mlir::ModuleOp"> {
  let summary = "Gradients of attention by kernels written by hand, where every GPU of the target is a Hopper";
  let description = [{Heads of 64 elements of 16 bits, as many of the keys as of the query, without dropout and padding.
    Numerics-changing: probabilities are 16 bits where they enter a product.}];
  let dependentDialects = ["::tapeout::tape::TapeDialect"];
  let options = [Option<"hopper", "hopper", "bool", "false", "Whether every GPU of the target is one">];
}

def SelectLibraryAttention : Pass<"tape-select-library-attention", "::mlir::ModuleOp"> {
  let summary = "Marks attention that one call of the target's library computes";
  let description = [{Where the target has such a library (ir/tape/Target.h); other attention is decomposed. Numerics-changing:
    the library keeps probabilities in 16 bits, sums them in an order of its own and draws other random bits for dropout.}];
  let dependentDialects = ["::tapeout::tape::TapeDialect"];
  let options = [Option<"headSize", "head-size", "int64_t", "0", "Largest head that the library takes; 0: what the target says">,
                 Option<"deterministic", "deterministic", "bool", "true", "Gradients have the same bits in every run">];
}

def Decompose : Pass<"tape-decompose", "::mlir::ModuleOp"> {
  let summary = "Rewrites semantic ops (layer_norm, attention, cross_entropy, ...) into elementwise ops, reductions and products";
  let description = [{Value-preserving: the semantic ops mean their decomposition.}];
  let dependentDialects = ["::tapeout::tape::TapeDialect"];
}

def WidenWindows : Pass<"tape-widen-windows", "::mlir::ModuleOp"> {
  let summary = "Convolutions and poolings in low precision run on f32 copies of their operands";
  let description = [{For targets that have them in f32 only. Value-preserving: sums are formed in f32 and rounded once.}];
  let dependentDialects = ["::tapeout::tape::TapeDialect"];
}

def ReadRounded : Pass<"tape-read-rounded", "::mlir::ModuleOp"> {
  let summary = "Sums of columns read the 16-bit copy of a gradient that products read";
  let description = [{Numerics-changing as autocast is: the summands are rounded, the sums stay f32.}];
  let dependentDialects = ["::tapeout::tape::TapeDialect"];
}

def RecomputeFromProducts : Pass<"tape-recompute-from-products", "::mlir::ModuleOp"> {
  let summary = "What is a few additions and multiplications behind a product is computed again for the backward phase";
  let description = [{
    A product that a library call has left in memory is kept in place of the value computed from it. For targets whose products
    cannot hand over pieces (ir/tape/Target.h). Value-preserving: the same operations.
  }];
  let dependentDialects = ["::tapeout::tape::TapeDialect", "::mlir::arith::ArithDialect", "::mlir::math::MathDialect"];
  let statistics = [Statistic<"recomputed", "recomputed", "values that are not kept">];
}

def FormFusionGroups : Pass<"tape-form-fusion-groups", "::mlir::ModuleOp"> {
  let summary = "Decides which ops share a kernel and puts each group into a tape.fusion";
  let description = [{
    Groups are merged along producer -> consumer edges as long as one row-wise loop can run them, so that the values between
    them never reach memory. Library calls and reshapes stay outside. Value-preserving.
  }];
  let options = [Option<"merge", "merge", "bool", "true", "false: every op is a kernel of its own">];
  let dependentDialects = ["::tapeout::tape::TapeDialect"];
}

def FuseEpilogues : Pass<"tape-fuse-epilogues", "::mlir::ModuleOp"> {
  let summary = "Elementwise groups join the product that only they read";
  let description = [{Where the target's products can hand over pieces: value-preserving, the same operations in the same
    order. Where they can add a bias (both: ir/tape/Target.h), only that; the library then rounds once instead of twice.}];
  let dependentDialects = ["::tapeout::tape::TapeDialect"];
  let statistics = [Statistic<"fused", "fused", "products that have an epilogue">];
}

def FuseMultiTensor : Pass<"tape-fuse-multi-tensor", "::mlir::ModuleOp"> {
  let summary = "Groups that do the same for many tensors, as optimizer updates do, become one";
  let description = [{
    Only groups whose results leave the function at once, so that nothing lives longer, and groups that read arguments only:
    casts of parameters, which live until the backward phase anyway. Sums of parts, whose operands are small, up to 64 MiB of
    them. Value-preserving.
  }];
  let dependentDialects = ["::tapeout::tape::TapeDialect"];
}

def VerifyFusionGroups : Pass<"tape-verify-fusion-groups", "::mlir::ModuleOp"> {
  let summary = "Checks that nothing is left that cannot become an instruction";
  let description = [{Outside of groups only reshapes and library ops; inside only ops a kernel can be generated for. Changes nothing.}];
}

//===- schedule -------------------------------------------------------------------------------------------------------===//

def LowerToPlan : Pass<"tape-lower-to-plan", "::mlir::ModuleOp"> {
  let summary = "Functions become programs of instructions over memory slots; equal kernels become one";
  let description = [{Updates are written in place where no later instruction reads the old value. Value-preserving.}];
  let dependentDialects = ["::tapeout::plan::PlanDialect"];
}

def PlanMemory : Pass<"tape-plan-memory", "::mlir::ModuleOp"> {
  let summary = "Gives every slot its place: transient ones share the arena, the others lie one after another";
  let statistics = [
    Statistic<"arenaBytes", "arena-bytes", "planned size of the arena">,
    Statistic<"liveBytes", "live-bytes", "largest sum of live transient slots, a lower bound">,
  ];
}

def VerifyPlan : Pass<"tape-verify-plan", "::mlir::ModuleOp"> {
  let summary = "Checks that every read finds what was last written to its slot, and that live slots do not overlap";
  let description = [{Changes nothing.}];
}

#endif
