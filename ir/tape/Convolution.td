// Convolutions and their gradients.
#ifndef TAPEOUT_IR_TAPE_CONVOLUTION_TD
#define TAPEOUT_IR_TAPE_CONVOLUTION_TD
include "ir/tape/Base.td"

class Tape_Convolution<string mnemonic, list<Trait> traits = []>
    : Tape_Op<mnemonic, "Always", "Opaque", !listconcat(traits, [LibraryCall, Window]), cost = CostFlops>;

def ConvolutionOp : Tape_Convolution<"convolution", [Differentiable]> {
  let summary = "[batch, channels, height, width] * [filters, channels, kernel height, kernel width]";
  let description = [{
    The cross-correlation that deep learning calls convolution. `strides` are those of height and width; `padding` counts
    zeros at the top, bottom, left and right.
  }];
  let arguments = (ins Tape_FloatTensor:$operand, Tape_FloatTensor:$weight, DenseI64ArrayAttr:$strides,
                       DenseI64ArrayAttr:$padding);
  let results = (outs Tape_FloatTensor:$result);
  let assemblyFormat = [{$operand `,` $weight `strides` $strides `padding` $padding attr-dict
                         `:` type($operand) `,` type($weight)}];
}
def ConvolutionInputGradOp : Tape_Convolution<"convolution_input_grad", [Differentiable, StatesShape]> {
  let summary = "Gradient of convolution for its input of `shape`; as a layer of its own, the transposed convolution";
  let arguments = (ins Tape_FloatTensor:$gradient, Tape_FloatTensor:$weight, DenseI64ArrayAttr:$shape,
                       DenseI64ArrayAttr:$strides, DenseI64ArrayAttr:$padding);
  let results = (outs Tape_FloatTensor:$result);
  let assemblyFormat = [{$gradient `,` $weight `to` $shape `strides` $strides `padding` $padding attr-dict
                         `:` type($gradient) `,` type($weight)}];
}
def ConvolutionWeightGradOp : Tape_Convolution<"convolution_weight_grad", [Decomposable, WideResult]> {
  let summary = "Gradient of convolution for its weight; with `parts` above 1 as that many terms, the first dimension";
  let description = [{
    Term i is the gradient of the i-th part of the positions [batch, out height, out width]. Terms let threads share the
    work where the weights are few; their number depends on the shapes only. `element_type`, else the operands' own, is
    the result's: sums of bf16 and f16 products are formed in f32.
  }];
  let arguments = (ins Tape_FloatTensor:$operand, Tape_FloatTensor:$gradient, DenseI64ArrayAttr:$kernel,
                       DenseI64ArrayAttr:$strides, DenseI64ArrayAttr:$padding, I64Attr:$parts,
                       OptionalAttr<TypeAttr>:$element_type);
  let results = (outs Tape_FloatTensor:$result);
  let assemblyFormat = [{$operand `,` $gradient `kernel` $kernel `strides` $strides `padding` $padding `parts` $parts
                         (`to` $element_type^)? attr-dict
                         `:` type($operand) `,` type($gradient)}];
}
#endif
