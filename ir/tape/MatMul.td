// Products.
#ifndef TAPEOUT_IR_TAPE_MATMUL_TD
#define TAPEOUT_IR_TAPE_MATMUL_TD
include "ir/tape/Base.td"

def DotGeneralOp : Tape_Op<"dot_general", "Always", "Opaque", [LibraryCall, Differentiable, Decomposable], cost = CostFlops> {
  let summary = "Batched product (StableHLO's dot_general): result dimensions are batch, free of lhs, free of rhs";
  let arguments = (ins Tape_FloatTensor:$lhs, Tape_FloatTensor:$rhs,
                       DenseI64ArrayAttr:$lhs_batch, DenseI64ArrayAttr:$rhs_batch,
                       DenseI64ArrayAttr:$lhs_contract, DenseI64ArrayAttr:$rhs_contract);
  let results = (outs Tape_FloatTensor:$result);
  let assemblyFormat = [{$lhs `,` $rhs `batch` $lhs_batch `x` $rhs_batch `contract` $lhs_contract `x` $rhs_contract
                         attr-dict `:` type($lhs) `,` type($rhs)}];
}
#endif
