// Normalisations of channels, the second dimension, over the others: batch_norm in two ops, so that its statistics can be
// taken over several devices and are computed once, and group_norm.
#ifndef TAPEOUT_IR_TAPE_BATCHNORM_TD
#define TAPEOUT_IR_TAPE_BATCHNORM_TD
include "ir/tape/Base.td"

def BatchNormStatisticsOp : Tape_Semantic<"batch_norm_statistics", "Never", [Differentiable, Stateful]> {
  let summary = "Mean and variance (biased) of each channel, and the running statistics after this step";
  let description = [{
    new = (1 - momentum) * old + momentum * batch, where the batch's variance is the unbiased one, as in PyTorch. In
    evaluation the running statistics are the results.
  }];
  let arguments = (ins Tape_FloatTensor:$operand, Tape_FloatTensor:$running_mean, Tape_FloatTensor:$running_variance,
                       F64Attr:$momentum);
  let results = (outs Tape_FloatTensor:$mean, Tape_FloatTensor:$variance, Tape_FloatTensor:$new_running_mean,
                      Tape_FloatTensor:$new_running_variance);
  let assemblyFormat = "operands `momentum` $momentum attr-dict `:` functional-type(operands, results)";
}
def BatchNormOp : Tape_Semantic<"batch_norm", "Inside", [Differentiable]> {
  let summary = "(x - mean) / sqrt(variance + epsilon) * gamma + beta, channel by channel";
  let arguments = (ins Tape_FloatTensor:$operand, Tape_FloatTensor:$mean, Tape_FloatTensor:$variance, Tape_FloatTensor:$gamma,
                       Tape_FloatTensor:$beta, F64Attr:$epsilon);
  let results = (outs Tape_FloatTensor:$result);
  let assemblyFormat = "operands `eps` $epsilon attr-dict `:` functional-type(operands, results)";
}
def BatchNormSumsOp : Tape_Semantic<"batch_norm_sums", "Never"> {
  let summary = "What the gradients of batch_norm need of dy: its sum, and that of dy * (x - mean) / sqrt(variance + epsilon)";
  let arguments = (ins Tape_FloatTensor:$operand, Tape_FloatTensor:$mean, Tape_FloatTensor:$variance,
                       Tape_FloatTensor:$gradient, F64Attr:$epsilon);
  let results = (outs Tape_FloatTensor:$sum, Tape_FloatTensor:$dot);
  let assemblyFormat = "operands `eps` $epsilon attr-dict `:` functional-type(operands, results)";
}
def GroupNormOp : Tape_Semantic<"group_norm", "Inside", [Differentiable]> {
  let summary = "(x - mean) * rstd * gamma + beta over groups of channels of a sample; also mean and rstd of each group";
  let arguments = (ins Tape_FloatTensor:$operand, Tape_FloatTensor:$gamma, Tape_FloatTensor:$beta, I64Attr:$groups,
                       F64Attr:$epsilon);
  let results = (outs Tape_FloatTensor:$result, Tape_FloatTensor:$mean, Tape_FloatTensor:$rstd);
  let assemblyFormat = "operands `groups` $groups `eps` $epsilon attr-dict `:` functional-type(operands, results)";
}
#endif
