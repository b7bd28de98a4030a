// Products.
#ifndef TAPEOUT_IR_TAPE_MATMUL_TD
#define TAPEOUT_IR_TAPE_MATMUL_TD
include "ir/tape/Base.td"

def Tape_Triangle : ConfinedAttr<StrAttr, [AttrConstraint<Or<!foreach(word, ["result", "lhs", "lhs_transposed"],
    CPred<"::llvm::cast<::mlir::StringAttr>($_self).getValue() == \"" # word # "\"">)>, "result, lhs or lhs_transposed">]>;

def DotGeneralOp : Tape_Op<"dot_general", "Always", "Opaque", [LibraryCall, Differentiable, Decomposable, WideResult], cost = CostFlops> {
  let summary = "Batched product (StableHLO's dot_general): result dimensions are batch, free of lhs, free of rhs";
  let description = [{
    Sums of bf16 and f16 products are formed in f32. `element_type`, else the operands' own, is the result's.
    `addend`, of the result's type, is added before the result is rounded.
    `triangle` states what the op need not compute, where two dimensions count the same tokens (causal attention):
    `result`: elements of the result whose last index is greater than the one before are never used but times zero; they may
    be any finite number. `lhs`: elements of lhs are zero where the contracted index is greater than the free one;
    `lhs_transposed`: where it is less.
  }];
  let arguments = (ins Tape_FloatTensor:$lhs, Tape_FloatTensor:$rhs, Optional<Tape_FloatTensor>:$addend,
                       DenseI64ArrayAttr:$lhs_batch, DenseI64ArrayAttr:$rhs_batch,
                       DenseI64ArrayAttr:$lhs_contract, DenseI64ArrayAttr:$rhs_contract,
                       OptionalAttr<TypeAttr>:$element_type, OptionalAttr<Tape_Triangle>:$triangle);
  let results = (outs Tape_FloatTensor:$result);
  let assemblyFormat = [{$lhs `,` $rhs (`plus` $addend^)? `batch` $lhs_batch `x` $rhs_batch
                         `contract` $lhs_contract `x` $rhs_contract (`to` $element_type^)? attr-dict `:` type($lhs) `,` type($rhs) (`,` type($addend)^)?}];
}
#endif
