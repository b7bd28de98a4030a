// Losses per position. The mean over all positions of all ranks is built by attach-loss.
#ifndef TAPEOUT_IR_TAPE_LOSS_TD
#define TAPEOUT_IR_TAPE_LOSS_TD
include "ir/tape/Base.td"

def CrossEntropyOp : Tape_Semantic<"cross_entropy", "Never", [Differentiable]> {
  let summary = "-log softmax(logits)[label] per position, 0 where the label is ignore_index; also log-sum-exp";
  let description = [{
    With smoothing s the target is 1 - s at the label and s / classes everywhere:
    lse - (1 - s) logits[label] - s mean(logits), as PyTorch's label_smoothing.
  }];
  let arguments = (ins Tape_FloatTensor:$logits, Tape_IndexTensor:$labels, I64Attr:$ignore_index,
                       DefaultValuedAttr<F64Attr, "0.0">:$smoothing);
  let results = (outs Tape_FloatTensor:$losses, Tape_FloatTensor:$lse);
  let assemblyFormat = "$logits `,` $labels `ignore` $ignore_index attr-dict `:` type($logits) `,` type($labels)";
  let hasVerifier = 1;
}
def CrossEntropyGradOp : Tape_Semantic<"cross_entropy_grad", "Never"> {
  let summary = "(softmax(logits) - target) * gradient, 0 where ignored";
  let arguments = (ins Tape_FloatTensor:$logits, Tape_IndexTensor:$labels, Tape_FloatTensor:$lse, Tape_FloatTensor:$gradient,
                       I64Attr:$ignore_index, DefaultValuedAttr<F64Attr, "0.0">:$smoothing);
  let results = (outs Tape_FloatTensor:$result);
  let assemblyFormat = "operands `ignore` $ignore_index attr-dict `:` functional-type(operands, results)";
}
#endif
