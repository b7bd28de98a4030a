// Table lookup and its gradient.
#ifndef TAPEOUT_IR_TAPE_EMBEDDING_TD
#define TAPEOUT_IR_TAPE_EMBEDDING_TD
include "ir/tape/Base.td"

def EmbeddingOp : Tape_Op<"embedding", "Follow", "Opaque", [Differentiable],
    cost = DeclareOpInterfaceMethods<CostModelOpInterface, ["getFlops", "getBytesRead"]>> {
  let summary = "Row ids[...] of a [rows, width] table: result [ids..., width]";
  let arguments = (ins Tape_FloatTensor:$table, Tape_IndexTensor:$ids);
  let results = (outs Tape_FloatTensor:$result);
  let assemblyFormat = "$table `[` $ids `]` attr-dict `:` type($table) `,` type($ids)";
  let hasVerifier = 1;
}
def EmbeddingGradOp : Tape_Op<"embedding_grad", "Never", "Opaque", [], cost = CostFlops> {
  let summary = "Sums the rows of the gradient by id, in the order of the ids: result [rows, width]";
  let arguments = (ins Tape_IndexTensor:$ids, Tape_FloatTensor:$gradient, I64Attr:$rows);
  let results = (outs Tape_FloatTensor:$result);
  let assemblyFormat = "$ids `,` $gradient `rows` $rows attr-dict `:` type($ids) `,` type($gradient)";
}
#endif
