// Reductions over dimensions.
#ifndef TAPEOUT_IR_TAPE_REDUCTION_TD
#define TAPEOUT_IR_TAPE_REDUCTION_TD
include "ir/tape/Base.td"

def ReduceKind : Tape_Keyword<["sum", "max"]>;

def ReduceOp : Tape_Op<"reduce", "Never", "Reduction", [Differentiable, ScalarBody, Decomposable], cost = CostFlops> {
  let summary = "Combines the elements of consecutive dimensions, which disappear";
  let description = [{The order of combination depends on the shape only. A maximum has no gradient here.}];
  let arguments = (ins Tape_Tensor:$operand, ReduceKind:$kind, DenseI64ArrayAttr:$dimensions);
  let results = (outs Tape_Tensor:$result);
  let assemblyFormat = "$kind $operand `over` $dimensions attr-dict `:` type($operand)";
}
#endif
