// Ops that make or move values without computing: constants, broadcasts, permutations, splits.
#ifndef TAPEOUT_IR_TAPE_SHAPE_TD
#define TAPEOUT_IR_TAPE_SHAPE_TD
include "ir/tape/Base.td"

def ConstantOp : Tape_Elementwise<"constant", "Follow", "", [ConstantLike], CheckedInference> {
  let summary = "One number, as a rank-0 tensor";
  let arguments = (ins F64Attr:$value, TypeAttr:$element_type);
  let results = (outs Tape_Tensor:$result);
  let assemblyFormat = "$value `to` $element_type attr-dict";
  let hasFolder = 1;
}
def IotaOp : Tape_Elementwise<"iota", "Follow", "", [StatesShape], CheckedInference, Placeable> {
  let summary = "An i32 tensor whose elements are their own index in one dimension";
  let arguments = (ins DenseI64ArrayAttr:$shape, I64Attr:$dimension);
  let results = (outs Tape_IndexTensor:$result);
  let assemblyFormat = "`dim` $dimension `of` $shape attr-dict";
  let hasVerifier = 1;
}

class Tape_Injective<string mnemonic, list<Trait> traits = []>
    : Tape_Op<mnemonic, "Follow", "Injective", !listconcat(traits, [Access]), cost = CostFlops>;

def ReshapeOp : Tape_Injective<"reshape", [Differentiable, StatesShape]> {
  let summary = "The same elements in row-major order under another shape";
  let arguments = (ins Tape_Tensor:$operand, DenseI64ArrayAttr:$shape);
  let results = (outs Tape_Tensor:$result);
  let assemblyFormat = "$operand `to` $shape attr-dict `:` type($operand)";
  let hasFolder = 1;
}
def TransposeOp : Tape_Injective<"transpose", [Differentiable]> {
  let summary = "result dimension i is operand dimension permutation[i]";
  let arguments = (ins Tape_Tensor:$operand, DenseI64ArrayAttr:$permutation);
  let results = (outs Tape_Tensor:$result);
  let assemblyFormat = "$operand `by` $permutation attr-dict `:` type($operand)";
  let hasFolder = 1;
}
def BroadcastInDimOp : Tape_Injective<"broadcast_in_dim", [Differentiable, StatesShape]> {
  let summary = "Repeats the operand: its dimension i becomes dimension broadcast_dimensions[i] of the result";
  let arguments = (ins Tape_Tensor:$operand, DenseI64ArrayAttr:$shape, DenseI64ArrayAttr:$broadcast_dimensions);
  let results = (outs Tape_Tensor:$result);
  let assemblyFormat = "$operand `to` $shape `dims` $broadcast_dimensions attr-dict `:` type($operand)";
}
def SliceOp : Tape_Injective<"slice", [Differentiable, DeclareOpInterfaceMethods<ResultShapeOpInterface, ["setResultShape"]>]> {
  let summary = "The elements from starts[i] up to, not including, limits[i] of each dimension i";
  let arguments = (ins Tape_Tensor:$operand, DenseI64ArrayAttr:$starts, DenseI64ArrayAttr:$limits);
  let results = (outs Tape_Tensor:$result);
  let assemblyFormat = "$operand `from` $starts `to` $limits attr-dict `:` type($operand)";
  let hasFolder = 1;
}
def HyperparameterOp : Tape_Injective<"hyperparameter"> {
  let summary = "One entry of the config slot (runtime/base/Hyperparameters.h) as a rank-0 f64";
  let arguments = (ins 1DTensorOf<[F64]>:$config, I64Attr:$field);
  let results = (outs Tape_ScalarF64:$result);
  let assemblyFormat = "$config `[` $field `]` attr-dict `:` type($config)";
}

def SplitOp : Tape_Op<"split", "Follow", "Opaque", [Differentiable, Decomposable], cost = CostFlops> {
  let summary = "Cuts one dimension into `count` equal parts";
  let arguments = (ins Tape_Tensor:$operand, I64Attr:$dimension, I64Attr:$count);
  let results = (outs Variadic<Tape_Tensor>:$results);
  let assemblyFormat = "$operand `dim` $dimension `into` $count attr-dict `:` type($operand)";
}
def ConcatenateOp : Tape_Op<"concatenate", "Follow", "Opaque", [Differentiable], cost = CostFlops> {
  let summary = "Joins tensors along a dimension; the other extents are the same";
  let arguments = (ins Variadic<Tape_Tensor>:$operands, I64Attr:$dimension);
  let results = (outs Tape_Tensor:$result);
  let assemblyFormat = "$operands `dim` $dimension attr-dict `:` type($operands)";
}
#endif
