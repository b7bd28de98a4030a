// Scaled dot-product attention.
#ifndef TAPEOUT_IR_TAPE_ATTENTION_TD
#define TAPEOUT_IR_TAPE_ATTENTION_TD
include "ir/tape/Base.td"

defvar AttentionTraits = [AttrSizedOperandSegments, Stochastic, Decomposable, LibraryCall, StridedCall];

def AttentionOp : Tape_Op<"attention", "Always", "Opaque", !listconcat([Differentiable], AttentionTraits), cost = CostFlops> {
  let summary = "softmax(scale * Q K^T, masked) V per head, and the log-sum-exp of each row of scores";
  let description = [{
    query [batch, tokens, heads, size], key and value [batch, key tokens, key heads, size]; result as query; lse
    [batch, heads, tokens]. With fewer key heads than heads, a divisor of them, each serves as many neighbouring heads
    of the query (grouped-query attention). `causal` hides later keys. `dropout` drops probabilities and scales the rest by
    1 / (1 - dropout); a training step gives it its key. `lengths` [batch], from 1 to tokens (others count as
    the nearest of these): tokens of a sequence from there on are padding. Nothing sees them, their rows of the result and of
    the gradients are 0, and their lse means nothing. Scores of bf16 and f16 operands, and lse, are f32. `library`: one call
    of the target's library computes it (select-library-attention); otherwise it is decomposed. The library's generator draws other bits than `tape.dropout`; `seed` and `step` are then what it takes as
    seed and offset.
  }];
  let arguments = (ins Tape_FloatTensor:$query, Tape_FloatTensor:$key, Tape_FloatTensor:$value,
                       Optional<Tape_I32Tensor>:$lengths, Optional<Tape_ScalarI64>:$seed, Optional<Tape_ScalarI64>:$step,
                       BoolAttr:$causal, F64Attr:$scale, DefaultValuedAttr<F64Attr, "0.0">:$dropout,
                       DefaultValuedAttr<I64Attr, "0">:$stream, UnitAttr:$library);
  let results = (outs Tape_FloatTensor:$result, Tape_FloatTensor:$lse);
  let assemblyFormat = [{$query `,` $key `,` $value (`lengths` $lengths^ `:` type($lengths))? (`random` $seed^ `,` $step)?
                         attr-dict `:` type($query) `,` type($key) `,` type($value)}];
  let extraClassDeclaration = facts # "static unsigned getOptionalOperands() { return 1; /*lengths*/ }";
  let hasVerifier = 1;
}

def AttentionGradOp : Tape_Op<"attention_grad", "Always", "Opaque", !listconcat([Scratch], AttentionTraits), cost = CostFlops> {
  let summary = "Gradients of attention for query, key and value, recomputing the probabilities from lse";
  let description = [{With `nondeterministic` the library may add the query's gradient in any order, which takes less memory.}];
  let arguments = (ins Tape_FloatTensor:$query, Tape_FloatTensor:$key, Tape_FloatTensor:$value,
                       Tape_FloatTensor:$output, Tape_FloatTensor:$lse, Tape_FloatTensor:$gradient,
                       Optional<Tape_I32Tensor>:$lengths, Optional<Tape_ScalarI64>:$seed, Optional<Tape_ScalarI64>:$step,
                       BoolAttr:$causal, F64Attr:$scale, DefaultValuedAttr<F64Attr, "0.0">:$dropout,
                       DefaultValuedAttr<I64Attr, "0">:$stream, UnitAttr:$library, UnitAttr:$nondeterministic);
  let results = (outs Tape_FloatTensor:$query_gradient, Tape_FloatTensor:$key_gradient, Tape_FloatTensor:$value_gradient);
  let extraClassDeclaration = facts # "static bool keepsPrecision(unsigned operand) { return operand == 4; /*lse*/ }";
  let assemblyFormat = [{$query `,` $key `,` $value `,` $output `,` $lse `,` $gradient (`lengths` $lengths^ `:` type($lengths))?
                         (`random` $seed^ `,` $step)? attr-dict
                         `:` type($query) `,` type($key) `,` type($value) `,` type($output) `,` type($lse) `,` type($gradient)}];
}

// The gradient of attention in two kernels that are written by hand (codegen/cuda/device/AttentionGradient.cpp), which
// select-attention-kernels puts in the place of attention_grad. Tensors of heads are 16 bits, with heads of 64 elements, as
// many of the keys as of the query. `places`: in a kernel of the plan, offset and strides of batch, token and head of each tensor of
// heads, operands first. `sums`: they give the sums of the columns of each 64 tokens of their gradients, too: f32 [batch, tiles,
// heads, 64], as gradients of biases need them.
defvar AttentionKernelTraits = [LibraryCall, HandWrittenKernel, StridedKernelCall];

def AttentionQueryGradientOp : Tape_Op<"attention_query_gradient", "Always", "Opaque", AttentionKernelTraits, cost = CostFlops> {
  let summary = "The gradient of attention for the query, summed over keys, and what the gradients of keys need of each row";
  let description = [{`rows` [2, batch, heads, tokens]: log-sum-exp in powers of 2, and the sum of gradient times result.}];
  let arguments = (ins Tape_FloatTensor:$query, Tape_FloatTensor:$key, Tape_FloatTensor:$value, Tape_FloatTensor:$output,
                       Tape_FloatTensor:$lse, Tape_FloatTensor:$gradient, BoolAttr:$causal, F64Attr:$scale,
                       UnitAttr:$sums, OptionalAttr<DenseI64ArrayAttr>:$places);
  let results = (outs Tape_FloatTensor:$query_gradient, Tape_FloatTensor:$rows, Variadic<Tape_FloatTensor>:$column_sums);
  let assemblyFormat = [{$query `,` $key `,` $value `,` $output `,` $lse `,` $gradient `scale` $scale attr-dict
                         `:` type($query) `,` type($key) `,` type($value) `,` type($output) `,` type($lse) `,` type($gradient)}];
}

def AttentionKeyGradientsOp : Tape_Op<"attention_key_gradients", "Always", "Opaque", AttentionKernelTraits, cost = CostFlops> {
  let summary = "The gradients of attention for key and value, summed over queries";
  let arguments = (ins Tape_FloatTensor:$query, Tape_FloatTensor:$key, Tape_FloatTensor:$value, Tape_FloatTensor:$gradient,
                       Tape_FloatTensor:$rows, BoolAttr:$causal, F64Attr:$scale, UnitAttr:$sums,
                       OptionalAttr<DenseI64ArrayAttr>:$places);
  let results = (outs Tape_FloatTensor:$key_gradient, Tape_FloatTensor:$value_gradient, Variadic<Tape_FloatTensor>:$column_sums);
  let assemblyFormat = [{$query `,` $key `,` $value `,` $gradient `,` $rows `scale` $scale attr-dict
                         `:` type($query) `,` type($key) `,` type($value) `,` type($gradient) `,` type($rows)}];
}
#endif
