// Elementwise ops: arithmetic, functions, activations, comparison and conversion.
#ifndef TAPEOUT_IR_TAPE_ELEMENTWISE_TD
#define TAPEOUT_IR_TAPE_ELEMENTWISE_TD
include "ir/tape/Base.td"

class Tape_Unary<string mnemonic, string amp, string linear = "">
    : Tape_Elementwise<mnemonic, amp, linear, [Differentiable]> {
  let arguments = (ins Tape_FloatTensor:$operand);
  let results = (outs Tape_FloatTensor:$result);
  let assemblyFormat = "$operand attr-dict `:` type($operand)";
}
class Tape_Binary<string mnemonic, string amp, string linear, list<Trait> traits = []>
    : Tape_Elementwise<mnemonic, amp, linear, !listconcat([Differentiable], traits)> {
  let arguments = (ins Tape_Tensor:$lhs, Tape_Tensor:$rhs);
  let results = (outs Tape_Tensor:$result);
  let assemblyFormat = "$lhs `,` $rhs attr-dict `:` type($lhs) `,` type($rhs)";
}

def AddOp : Tape_Binary<"add", "Follow", "0b11", [Commutative]> { let summary = "lhs + rhs"; }
def SubtractOp : Tape_Binary<"subtract", "Follow", "0b11"> { let summary = "lhs - rhs"; }
def MultiplyOp : Tape_Binary<"multiply", "Follow", "0b01, 0b10", [Commutative]> { let summary = "lhs * rhs"; }
def DivideOp : Tape_Binary<"divide", "Follow", "0b01"> { let summary = "lhs / rhs"; }
def MaximumOp : Tape_Binary<"maximum", "Follow", "", [Commutative]> {
  let summary = "The larger of both; NaN if either is NaN. The gradient goes to lhs where lhs >= rhs, else to rhs.";
}

def NegateOp : Tape_Unary<"negate", "Follow", "0b1"> { let summary = "-x"; }
def ExpOp : Tape_Unary<"exp", "Never"> { let summary = "e^x"; }
def LogOp : Tape_Unary<"log", "Never"> { let summary = "Natural logarithm"; }
def SqrtOp : Tape_Unary<"sqrt", "Never"> { let summary = "Square root"; }
def RsqrtOp : Tape_Unary<"rsqrt", "Never"> { let summary = "1 / sqrt(x)"; }
def TanhOp : Tape_Unary<"tanh", "Follow"> { let summary = "Hyperbolic tangent"; }
def LogisticOp : Tape_Unary<"logistic", "Follow"> { let summary = "1 / (1 + e^-x)"; }
def SoftplusOp : Tape_Unary<"softplus", "Never"> { let summary = "log(1 + e^x)"; }
def ReluOp : Tape_Unary<"relu", "Follow"> { let summary = "max(x, 0); the gradient at 0 is 0"; }

def SiluOp : Tape_Unary<"silu", "Follow"> { let summary = "x / (1 + e^-x), also called swish"; }
def SiluGradOp : Tape_Elementwise<"silu_grad", "Follow", "0b10"> {
  let summary = "dy * silu'(x)";
  let arguments = (ins Tape_FloatTensor:$operand, Tape_FloatTensor:$gradient);
  let results = (outs Tape_FloatTensor:$result);
  let assemblyFormat = "$operand `,` $gradient attr-dict `:` type($operand) `,` type($gradient)";
}

def GeluKind : Tape_Keyword<["tanh", "none"]>;

def GeluOp : Tape_Elementwise<"gelu", "Follow", "", [Differentiable]> {
  let summary = "x * Phi(x), exact (erf) or by the tanh approximation of GPT-2";
  let description = [{`none`: 0.5 x (1 + erf(x / sqrt 2)). `tanh`: 0.5 x (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))).}];
  let arguments = (ins Tape_FloatTensor:$operand, GeluKind:$approximate);
  let results = (outs Tape_FloatTensor:$result);
  let assemblyFormat = "$operand attr-dict `:` type($operand)";
}
def GeluGradOp : Tape_Elementwise<"gelu_grad", "Follow", "0b10"> {
  let summary = "dy * gelu'(x)";
  let arguments = (ins Tape_FloatTensor:$operand, Tape_FloatTensor:$gradient,
                       GeluKind:$approximate);
  let results = (outs Tape_FloatTensor:$result);
  let assemblyFormat = "$operand `,` $gradient attr-dict `:` type($operand) `,` type($gradient)";
}

// NaN compares false, except for ne.
def CompareKind : Tape_Keyword<["eq", "ne", "lt", "le", "gt", "ge"]>;

def CompareOp : Tape_Elementwise<"compare", "Follow", "", [], CheckedInference> {
  let summary = "lhs <kind> rhs, as i1";
  let arguments = (ins Tape_Tensor:$lhs, Tape_Tensor:$rhs, CompareKind:$kind);
  let results = (outs Tape_BoolTensor:$result);
  let assemblyFormat = "$kind $lhs `,` $rhs attr-dict `:` type($lhs) `,` type($rhs)";
}
def SelectOp : Tape_Elementwise<"select", "Follow", "0b110", [Differentiable], CheckedInference> {
  let summary = "predicate ? on_true : on_false";
  let arguments = (ins Tape_BoolTensor:$predicate, Tape_Tensor:$on_true, Tape_Tensor:$on_false);
  let results = (outs Tape_Tensor:$result);
  let assemblyFormat = "$predicate `,` $on_true `,` $on_false attr-dict `:` type($predicate) `,` type($on_true) `,` type($on_false)";
}
def ConvertOp : Tape_Elementwise<"convert", "Follow", "", [Differentiable], CheckedInference, Placeable> {
  let summary = "Changes the element type: floats round to nearest even, to integers towards zero";
  let arguments = (ins Tape_Tensor:$operand, TypeAttr:$element_type);
  let results = (outs Tape_Tensor:$result);
  let assemblyFormat = "$operand `to` $element_type attr-dict `:` type($operand)";
  let hasFolder = 1;
}
#endif
