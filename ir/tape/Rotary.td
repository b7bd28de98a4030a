// Rotary positions (Su et al. 2021): pairs of a head's elements turn by an angle that grows with the position.
#ifndef TAPEOUT_IR_TAPE_ROTARY_TD
#define TAPEOUT_IR_TAPE_ROTARY_TD
include "ir/tape/Base.td"

def RopeTableOp : Tape_Elementwise<"rope_table", "Never", "", [], CheckedInference, Placeable> {
  let summary = "Cosine and sine of position * base^(-i/pairs), for pair i of the last dimension";
  let description = [{
    positions and results [tokens, pairs]. Angles are computed in f64 and rounded at the end, so that late positions are as
    exact as early ones.
  }];
  let arguments = (ins Tape_IndexTensor:$positions, F64Attr:$base);
  let results = (outs Tape_FloatTensor:$cos, Tape_FloatTensor:$sin);
  let assemblyFormat = "$positions `base` $base attr-dict `:` type($positions)";
}
def RopeOp : Tape_Semantic<"rope", "Never", [Differentiable]> {
  let summary = "Turns the pair (i, i + size / 2) of every head by the angle of its position";
  let description = [{
    operand [batch, tokens, heads, size]; cos and sin [tokens, size / 2] of rope_table. With the halves (a, b) of a head the
    result is (a cos - b sin, b cos + a sin): the pairing of Llama in Hugging Face's form, not that of neighbours.
  }];
  let arguments = (ins Tape_FloatTensor:$operand, Tape_FloatTensor:$cos, Tape_FloatTensor:$sin);
  let results = (outs Tape_FloatTensor:$result);
  let assemblyFormat = "operands attr-dict `:` functional-type(operands, results)";
}
#endif
