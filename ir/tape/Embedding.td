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
def EmbeddingGradOp : Tape_Op<"embedding_grad", "Never", "Opaque", [Decomposable], cost = CostFlops> {
  let summary = "Sums the rows of the gradient by id, in the order of the ids: result [rows, width]";
  let arguments = (ins Tape_IndexTensor:$ids, Tape_FloatTensor:$gradient, I64Attr:$rows);
  let results = (outs Tape_FloatTensor:$result);
  let assemblyFormat = "$ids `,` $gradient `rows` $rows attr-dict `:` type($ids) `,` type($gradient)";
}

// The gradient of an embedding for targets with thousands of threads (sortedEmbeddingGrad in ir/tape/Target.h): ids are
// sorted, their order is cut into pieces of one length, and no thread adds more than two pieces and the sums of others,
// however often an id occurs.
def SortIdsOp : Tape_Op<"sort_ids", "Never", "Opaque"> {
  let summary = "Positions of ids sorted by id, equal ones in order; and where each row's begin";
  let description = [{Ids outside [0, rows) come last. `begins` [rows + 1]: of row r are positions begins[r] to begins[r + 1] of
`order`.}];
  let arguments = (ins Tape_IndexTensor:$ids, I64Attr:$rows);
  let results = (outs Tape_IndexTensor:$order, Tape_IndexTensor:$begins);
  let assemblyFormat = "$ids `rows` $rows attr-dict `:` type($ids)";
}
def SumSortedPiecesOp : Tape_Op<"sum_sorted_pieces", "Never", "Opaque", [], cost = CostFlops> {
  let summary = "The sum of each 64 sorted rows of the gradient that are of one id; zero where they are not";
  let arguments = (ins Tape_IndexTensor:$ids, Tape_IndexTensor:$order, Tape_FloatTensor:$gradient);
  let results = (outs Tape_FloatTensor:$result);
  let assemblyFormat = "$ids `,` $order `,` $gradient attr-dict `:` type($ids) `,` type($order) `,` type($gradient)";
  let extraClassDeclaration = facts # "static constexpr int64_t kPiece = 64;";
}
def SumSortedRowsOp : Tape_Op<"sum_sorted_rows", "Never", "Opaque", [], cost = CostFlops> {
  let summary = "Sums the rows of the gradient by id: what lies before, in and behind the whole pieces of each id, in order";
  let description = [{`base`, of the result's type: what the sums are added to, such as the gradient that a tied embedding has
    from the other end of the model.}];
  let arguments = (ins Tape_IndexTensor:$order, Tape_IndexTensor:$begins, Tape_FloatTensor:$pieces, Tape_FloatTensor:$gradient,
                       Optional<Tape_FloatTensor>:$base);
  let results = (outs Tape_FloatTensor:$result);
  let assemblyFormat = [{$order `,` $begins `,` $pieces `,` $gradient (`to` $base^)? attr-dict
                         `:` type($order) `,` type($begins) `,` type($pieces) `,` type($gradient) (`,` type($base)^)?}];
  let hasCanonicalizeMethod = 1;
}
#endif
