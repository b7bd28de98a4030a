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

def SumOfSquaresOp : Tape_Semantic<"sum_of_squares", "Never", [AttrSizedOperandSegments]> {
  let summary = "The sum of the squares of all elements, times `scale`, of all tensors";
  let arguments = (ins Variadic<Tape_FloatTensor>:$tensors, Optional<Tape_ScalarFloat>:$scale);
  let results = (outs Tape_ScalarFloat:$result);
  let assemblyFormat = "$tensors (`times` $scale^ `:` type($scale) `of`)? attr-dict `:` type($tensors)";
  let hasCanonicalizeMethod = 1;
}
def SumOfSquaresPartsOp : Tape_Op<"sum_of_squares_parts", "Never", "Opaque", [AttrSizedOperandSegments], cost = CostFlops> {
  let summary = "One sum of squares for each 4,096 elements of each tensor, in order: one kernel for many tensors";
  let arguments = (ins Variadic<Tape_FloatTensor>:$tensors, Optional<Tape_ScalarFloat>:$scale);
  let results = (outs Tape_FloatTensor:$result);
  let assemblyFormat = "$tensors (`times` $scale^ `:` type($scale) `of`)? attr-dict `:` type($tensors)";
  let extraClassDeclaration = facts # "static constexpr int64_t kPart = 4096;";
}
#endif
