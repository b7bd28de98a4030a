// Normalisations over the last dimension.
#ifndef TAPEOUT_IR_TAPE_NORMALIZATION_TD
#define TAPEOUT_IR_TAPE_NORMALIZATION_TD
include "ir/tape/Base.td"

def SoftmaxOp : Tape_Semantic<"softmax", "Never", [Differentiable]> {
  let summary = "exp(x - max) / sum over the last dimension";
  let arguments = (ins Tape_FloatTensor:$operand);
  let results = (outs Tape_FloatTensor:$result);
  let assemblyFormat = "$operand attr-dict `:` type($operand)";
}
def SoftmaxGradOp : Tape_Semantic<"softmax_grad", "Never"> {
  let summary = "y * (dy - sum(y * dy))";
  let arguments = (ins Tape_FloatTensor:$output, Tape_FloatTensor:$gradient);
  let results = (outs Tape_FloatTensor:$result);
  let assemblyFormat = "operands attr-dict `:` functional-type(operands, results)";
}
def RmsNormOp : Tape_Semantic<"rms_norm", "Inside", [Differentiable]> {
  let summary = "x * rstd * gamma over the last dimension, rstd = 1 / sqrt(mean(x^2) + epsilon); also returns rstd of each row";
  let arguments = (ins Tape_FloatTensor:$operand, Tape_FloatTensor:$gamma, F64Attr:$epsilon);
  let results = (outs Tape_FloatTensor:$result, Tape_FloatTensor:$rstd);
  let assemblyFormat = "operands `eps` $epsilon attr-dict `:` functional-type(operands, results)";
}
def RmsNormGradOp : Tape_Semantic<"rms_norm_grad", "Inside"> {
  let summary = "Gradient of rms_norm for x";
  let arguments = (ins Tape_FloatTensor:$operand, Tape_FloatTensor:$gamma, Tape_FloatTensor:$rstd, Tape_FloatTensor:$gradient);
  let results = (outs Tape_FloatTensor:$result);
  let assemblyFormat = "operands attr-dict `:` functional-type(operands, results)";
}
def RmsNormParamGradOp : Tape_Semantic<"rms_norm_param_grad", "Never"> {
  let summary = "Gradient of rms_norm for gamma";
  let arguments = (ins Tape_FloatTensor:$operand, Tape_FloatTensor:$rstd, Tape_FloatTensor:$gradient);
  let results = (outs Tape_FloatTensor:$result);
  let assemblyFormat = "operands attr-dict `:` functional-type(operands, results)";
}
def LayerNormOp : Tape_Semantic<"layer_norm", "Inside", [Differentiable]> {
  let summary = "(x - mean) * rstd * gamma + beta over the last dimension; also returns mean and rstd of each row";
  let arguments = (ins Tape_FloatTensor:$operand, Tape_FloatTensor:$gamma, Tape_FloatTensor:$beta, F64Attr:$epsilon);
  let results = (outs Tape_FloatTensor:$result, Tape_FloatTensor:$mean, Tape_FloatTensor:$rstd);
  let assemblyFormat = "operands `eps` $epsilon attr-dict `:` functional-type(operands, results)";
}
def LayerNormGradOp : Tape_Semantic<"layer_norm_grad", "Inside"> {
  let summary = "Gradient of layer_norm for x";
  let arguments = (ins Tape_FloatTensor:$operand, Tape_FloatTensor:$gamma, Tape_FloatTensor:$mean, Tape_FloatTensor:$rstd,
                       Tape_FloatTensor:$gradient);
  let results = (outs Tape_FloatTensor:$result);
  let assemblyFormat = "operands attr-dict `:` functional-type(operands, results)";
}
def LayerNormParamGradOp : Tape_Semantic<"layer_norm_param_grad", "Never"> {
  let summary = "Gradients of layer_norm for gamma and beta";
  let arguments = (ins Tape_FloatTensor:$operand, Tape_FloatTensor:$mean, Tape_FloatTensor:$rstd, Tape_FloatTensor:$gradient);
  let results = (outs Tape_FloatTensor:$gamma_gradient, Tape_FloatTensor:$beta_gradient);
  let assemblyFormat = "operands attr-dict `:` functional-type(operands, results)";
}
#endif
