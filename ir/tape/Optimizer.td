// Optimizer updates and the scalars they need, as in PyTorch. Scalars are rank-0 f64 read from the config slot.
#ifndef TAPEOUT_IR_TAPE_OPTIMIZER_TD
#define TAPEOUT_IR_TAPE_OPTIMIZER_TD
include "ir/tape/Base.td"

class Tape_ScalarFunction<string mnemonic> : Tape_Elementwise<mnemonic, "Never", "", [], CheckedInference> {
  let results = (outs Tape_ScalarF64:$result);
  let assemblyFormat = "operands attr-dict `:` functional-type(operands, results)";
}
def LearningRateOp : Tape_ScalarFunction<"learning_rate"> {
  let summary = "Learning rate of the step with this 0-based number";
  let description = [{
    Warm-up: peak * (step + 1) / warmup while step < warmup. Then with p = (step - warmup) / (total - warmup) in [0, 1]:
    constant peak; linear peak * (1 - (1 - min_ratio) p); cosine peak * (min_ratio + (1 - min_ratio) (1 + cos(pi p)) / 2).
    `schedule` is a ScheduleKind (runtime/base/Hyperparameters.h).
  }];
  let arguments = (ins Tape_ScalarI64:$step, Tape_ScalarF64:$peak, Tape_ScalarF64:$min_ratio, Tape_ScalarF64:$schedule,
                       Tape_ScalarF64:$warmup, Tape_ScalarF64:$total);
}
def BiasCorrectionOp : Tape_ScalarFunction<"bias_correction"> {
  let summary = "1 - beta^(step + 1)";
  let arguments = (ins Tape_ScalarI64:$step, Tape_ScalarF64:$beta);
}

def AdamOp : Tape_Elementwise<"adam", "Never", ""> {
  let summary = "One Adam or AdamW update of a parameter and its moments";
  let description = [{
    decoupled (AdamW): p *= 1 - lr*wd; otherwise (Adam) g += wd*p. Then m += (g-m)(1-beta1); v = beta2 v + (1-beta2) g^2;
    p -= lr/c1 * m / (sqrt(v)/sqrt(c2) + epsilon) with c1 = 1 - beta1^t, c2 = 1 - beta2^t.
  }];
  let arguments = (ins Tape_FloatTensor:$parameter, Tape_FloatTensor:$gradient, Tape_FloatTensor:$m, Tape_FloatTensor:$v,
                       Tape_ScalarF64:$lr, Tape_ScalarF64:$weight_decay, Tape_ScalarF64:$beta1, Tape_ScalarF64:$beta2,
                       Tape_ScalarF64:$epsilon, Tape_ScalarF64:$correction1, Tape_ScalarF64:$correction2, BoolAttr:$decoupled);
  let results = (outs Tape_FloatTensor:$new_parameter, Tape_FloatTensor:$new_m, Tape_FloatTensor:$new_v);
  let extraClassDeclaration = facts # "static constexpr unsigned kResultCount = 3;";
  let assemblyFormat = "operands attr-dict `:` functional-type(operands, results)";
}
def SgdOp : Tape_Elementwise<"sgd", "Never", ""> {
  let summary = "One step of stochastic gradient descent with weight decay";
  let description = [{p -= lr * (g + wd*p)}];
  let arguments = (ins Tape_FloatTensor:$parameter, Tape_FloatTensor:$gradient, Tape_ScalarF64:$lr, Tape_ScalarF64:$weight_decay);
  let results = (outs Tape_FloatTensor:$new_parameter);
  let assemblyFormat = "operands attr-dict `:` functional-type(operands, results)";
}
def SgdMomentumOp : Tape_Elementwise<"sgd_momentum", "Never", ""> {
  let summary = "One step of stochastic gradient descent with momentum, optionally Nesterov's";
  let description = [{g += wd*p; buffer = momentum*buffer + g; p -= lr * (nesterov ? g + momentum*buffer : buffer)}];
  let arguments = (ins Tape_FloatTensor:$parameter, Tape_FloatTensor:$gradient, Tape_FloatTensor:$buffer,
                       Tape_ScalarF64:$lr, Tape_ScalarF64:$weight_decay, Tape_ScalarF64:$momentum, BoolAttr:$nesterov);
  let results = (outs Tape_FloatTensor:$new_parameter, Tape_FloatTensor:$new_buffer);
  let extraClassDeclaration = facts # "static constexpr unsigned kResultCount = 2;";
  let assemblyFormat = "operands attr-dict `:` functional-type(operands, results)";
}
#endif
