// Products together with what is done to their results, in kernels that are written by hand
// (codegen/cuda/device/GeluProduct.cpp). select-product-kernels puts them in the place of products and GELUs.
#ifndef TAPEOUT_IR_TAPE_PRODUCTKERNELS_TD
#define TAPEOUT_IR_TAPE_PRODUCTKERNELS_TD
include "ir/tape/Base.td"

// operand [..., k] is rows of 16-bit elements. weight is [features, k], or [k, features] where `summed` is 0: the dimension of
// the weight that is summed over.
defvar ProductKernelTraits = [LibraryCall, HandWrittenKernel];

def GeluProductOp : Tape_Op<"gelu_product", "Always", "Opaque", ProductKernelTraits, cost = CostFlops> {
  let summary = "GELU of a product and a bias, and GELU's slope there, which is all that its gradient needs";
  let description = [{Nothing is rounded before the results. `approximate` as in tape.gelu.}];
  let arguments = (ins Tape_FloatTensor:$operand, Tape_FloatTensor:$weight, Tape_FloatTensor:$bias, I64Attr:$summed,
                       Tape_Keyword<["tanh", "none"]>:$approximate);
  let results = (outs Tape_FloatTensor:$result, Tape_FloatTensor:$slope);
  let assemblyFormat = [{$operand `,` $weight `,` $bias `summed` $summed attr-dict
                         `:` type($operand) `,` type($weight) `,` type($bias)}];
}

def ScaledProductOp : Tape_Op<"scaled_product", "Always", "Opaque", ProductKernelTraits, cost = CostFlops> {
  let summary = "A product, times other numbers, and the sums of the columns of each tile of rows";
  let description = [{Sums, f32 [tiles, features], are of what is not yet rounded. `scale` is as the result.}];
  let arguments = (ins Tape_FloatTensor:$operand, Tape_FloatTensor:$weight, Tape_FloatTensor:$scale, I64Attr:$summed);
  let results = (outs Tape_FloatTensor:$result, Tape_FloatTensor:$sums);
  let assemblyFormat = [{$operand `,` $weight `,` $scale `summed` $summed attr-dict
                         `:` type($operand) `,` type($weight) `,` type($scale)}];
}
#endif
