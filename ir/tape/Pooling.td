// Poolings and their gradients.
#ifndef TAPEOUT_IR_TAPE_POOLING_TD
#define TAPEOUT_IR_TAPE_POOLING_TD
include "ir/tape/Base.td"

class Tape_Pooling<string mnemonic, list<Trait> traits = []>
    : Tape_Op<mnemonic, "Follow", "Opaque", !listconcat(traits, [LibraryCall, Window]), cost = CostFlops>;

def MaxPoolOp : Tape_Pooling<"max_pool", [Differentiable]> {
  let summary = "The maximum of each window, and the number in the window, row by row, of the first element that is it";
  let description = [{`padding` is at the top, bottom, left and right; it takes no part, and is smaller than the window.}];
  let arguments = (ins Tape_FloatTensor:$operand, DenseI64ArrayAttr:$window, DenseI64ArrayAttr:$strides,
                       DenseI64ArrayAttr:$padding);
  let results = (outs Tape_FloatTensor:$result, Tape_IndexTensor:$index);
  let assemblyFormat = [{$operand `window` $window `strides` $strides `padding` $padding attr-dict
                         `:` type($operand)}];
}
def MaxPoolGradOp : Tape_Pooling<"max_pool_grad", [StatesShape]> {
  let summary = "Gradient of max_pool for its operand of `shape`: that of a window goes to its maximum";
  let arguments = (ins Tape_IndexTensor:$index, Tape_FloatTensor:$gradient, DenseI64ArrayAttr:$shape,
                       DenseI64ArrayAttr:$window, DenseI64ArrayAttr:$strides, DenseI64ArrayAttr:$padding);
  let results = (outs Tape_FloatTensor:$result);
  let assemblyFormat = [{$index `,` $gradient `to` $shape `window` $window `strides` $strides `padding` $padding attr-dict
                         `:` type($index) `,` type($gradient)}];
}
def AvgPoolOp : Tape_Pooling<"avg_pool", [Differentiable, Decomposable]> {
  let summary = "The sum of each window divided by its size; padding counts as zeros";
  let arguments = (ins Tape_FloatTensor:$operand, DenseI64ArrayAttr:$window, DenseI64ArrayAttr:$strides,
                       DenseI64ArrayAttr:$padding);
  let results = (outs Tape_FloatTensor:$result);
  let assemblyFormat = [{$operand `window` $window `strides` $strides `padding` $padding attr-dict
                         `:` type($operand)}];
}
def AvgPoolGradOp : Tape_Pooling<"avg_pool_grad", [Decomposable, StatesShape]> {
  let summary = "Gradient of avg_pool for its operand of `shape`";
  let arguments = (ins Tape_FloatTensor:$gradient, DenseI64ArrayAttr:$shape, DenseI64ArrayAttr:$window,
                       DenseI64ArrayAttr:$strides, DenseI64ArrayAttr:$padding);
  let results = (outs Tape_FloatTensor:$result);
  let assemblyFormat = [{$gradient `to` $shape `window` $window `strides` $strides `padding` $padding attr-dict
                         `:` type($gradient)}];
}
#endif
