// Random numbers: Philox4x32-10 keyed by (seed), counter (element index, step, stream).
#ifndef TAPEOUT_IR_TAPE_RANDOM_TD
#define TAPEOUT_IR_TAPE_RANDOM_TD
include "ir/tape/Base.td"

def DropoutOp : Tape_Elementwise<"dropout", "Follow", "0b1", [AttrSizedOperandSegments, Differentiable, Stochastic]> {
  let summary = "0 with probability rate, else x / (1 - rate)";
  let description = [{
    An element is kept when the first word of Philox4x32-10 (key: seed; counter: element index low, high, step, stream)
    is at least rate * 2^32. Without its key, as in a model file, it is not executable.
  }];
  let arguments = (ins Tape_FloatTensor:$operand, Optional<Tape_ScalarI64>:$seed, Optional<Tape_ScalarI64>:$step,
                       F64Attr:$rate, DefaultValuedAttr<I64Attr, "0">:$stream);
  let results = (outs Tape_FloatTensor:$result);
  let assemblyFormat = "$operand `rate` $rate (`random` $seed^ `,` $step)? attr-dict `:` type($operand)";
  let hasFolder = 1;
  let hasVerifier = 1;
}
#endif
