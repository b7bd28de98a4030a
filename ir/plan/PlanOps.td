// The plan dialect: slots of memory and instruction programs, one step before the FlatBuffers plan (runtime/plan.fbs).
#ifndef TAPEOUT_IR_PLAN_PLANOPS_TD
#define TAPEOUT_IR_PLAN_PLANOPS_TD

include "mlir/IR/OpBase.td"
include "mlir/IR/AttrTypeBase.td"
include "mlir/IR/EnumAttr.td"
include "mlir/IR/SymbolInterfaces.td"
include "mlir/Interfaces/SideEffectInterfaces.td"

def PlanDialect : Dialect {
  let name = "plan";
  let cppNamespace = "::tapeout::plan";
  let summary = "Memory slots, kernels and instruction programs.";
  let useDefaultTypePrinterParser = 1;
}

def Plan_SlotType : TypeDef<PlanDialect, "Slot"> {
  let mnemonic = "slot";
  let summary = "A piece of device memory of a fixed size";
}

// SlotKind of runtime/plan.fbs.
def SlotKind : ConfinedAttr<StrAttr, [AttrConstraint<Or<!foreach(word, ["arena", "parameter", "optimizer_state", "counter",
    "config", "input", "copy", "output"], CPred<"::llvm::cast<::mlir::StringAttr>($_self).getValue() == \"" # word # "\"">)>, "a slot kind">]>;

class Plan_Op<string mnemonic, list<Trait> traits = []> : Op<PlanDialect, mnemonic, traits>;

def SlotOp : Plan_Op<"slot"> {
  let summary = "Declares a slot; `offset` (bytes, in the arena or in the persistent region) is set by plan-memory";
  let description = [{`sizes`, in bytes and falling, are those that scratch memory may have; plan-memory chooses among them.}];
  let arguments = (ins SlotKind:$kind, StrAttr:$sym, TypeAttr:$type, OptionalAttr<I64Attr>:$offset,
                       OptionalAttr<DenseI64ArrayAttr>:$sizes);
  let results = (outs Plan_SlotType:$slot);
  let assemblyFormat = "$kind $sym $type (`at` $offset^)? (`sizes` $sizes^)? attr-dict";
  let extraClassDeclaration = [{
    int64_t getBytes(); // of the tensor, rounded up to the alignment of slots
    static constexpr int64_t kAlignment = 64;
  }];
}

def KernelOp : Plan_Op<"kernel", [IsolatedFromAbove, Symbol, SingleBlock]> {
  let summary = "A kernel to generate: the region holds its tape ops; arguments are operands, tape.yield its results";
  let description = [{`tensors`: see tape.fusion. `columns`: the kernel is the epilogue of a product with so many columns;
    a unit is 64 columns of one row.}];
  let arguments = (ins SymbolNameAttr:$sym_name, DefaultValuedAttr<I64Attr, "1">:$tensors, OptionalAttr<I64Attr>:$columns);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = "$sym_name attr-dict-with-keyword $body";
}

def ProgramOp : Plan_Op<"program", [SingleBlock, NoTerminator, Symbol, AttrSizedOperandSegments]> {
  let summary = "A list of instructions, executed in order";
  let description = [{`inputs` are filled before a run, `outputs` read after it.}];
  let arguments = (ins SymbolNameAttr:$sym_name, Variadic<Plan_SlotType>:$inputs, Variadic<Plan_SlotType>:$outputs,
                       StrArrayAttr:$input_names, StrArrayAttr:$output_names);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = "$sym_name `inputs` $input_names `(` $inputs `)` `outputs` $output_names `(` $outputs `)` attr-dict-with-keyword $body";
}

def InstructionOpInterface : OpInterface<"InstructionOpInterface"> {
  let description = [{A step of a program: which slots it reads and which it writes.}];
  let cppNamespace = "::tapeout::plan";
  let methods = [InterfaceMethod<"Slots read.", "::mlir::Operation::operand_range", "getReads">,
                 InterfaceMethod<"Slots written.", "::mlir::Operation::operand_range", "getWrites">,
                 InterfaceMethod<"The slot that it uses only while it runs, or null.", "::mlir::Value", "getScratch", (ins), "",
                                 [{ return {}; }]>];
}

class Plan_Instruction<string mnemonic, list<Trait> traits = []>
    : Plan_Op<mnemonic, !listconcat(traits, [AttrSizedOperandSegments, InstructionOpInterface])>;

def LaunchOp : Plan_Instruction<"launch"> {
  let summary = "Runs a kernel";
  let arguments = (ins FlatSymbolRefAttr:$kernel, Variadic<Plan_SlotType>:$reads, Variadic<Plan_SlotType>:$writes);
  let assemblyFormat = "$kernel `(` $reads `)` `->` `(` $writes `)` attr-dict";
}
def MatmulOp : Plan_Instruction<"matmul"> {
  let summary = "Strided batched product; see table Matmul of runtime/plan.fbs";
  let description = [{`sizes` is m, n, k; `strides` is a row, a column, b row, b column, c row, c column;
    `batch` holds extent, a stride, b stride, c stride for each batch dimension; `offsets` where a, b and c begin in
    their slots, in elements. `triangle` as in tape.dot_general. Reads are a, b; c is the first write. The
    kernel `epilogue` runs on each finished piece of c. Its arguments are c, the other reads, and all writes. `bias`: it adds
    the third read to the rows of c, and the library may do that in its place. `accumulate`: the product is added to c,
    which is the third read.}];
  let arguments = (ins Variadic<Plan_SlotType>:$reads, Variadic<Plan_SlotType>:$writes,
                       DenseI64ArrayAttr:$sizes, DenseI64ArrayAttr:$strides, DenseI64ArrayAttr:$batch,
                       OptionalAttr<DenseI64ArrayAttr>:$offsets, OptionalAttr<FlatSymbolRefAttr>:$epilogue,
                       OptionalAttr<StrAttr>:$triangle, UnitAttr:$bias, UnitAttr:$accumulate);
  let assemblyFormat = [{`(` $reads `)` `->` `(` $writes `)` `sizes` $sizes `strides` $strides `batch` $batch
                         (`offsets` $offsets^)? (`epilogue` $epilogue^ (`bias` $bias^)?)? (`triangle` $triangle^)?
                         (`accumulate` $accumulate^)? attr-dict}];
}
def WindowOp : Plan_Instruction<"window"> {
  let summary = "Slides a window over planes: convolution or pooling; see table Window of runtime/plan.fbs";
  let description = [{`function` is the tape op's mnemonic; `sizes` are the fields of tape::WindowSizes in their order.}];
  let arguments = (ins StrAttr:$function, Variadic<Plan_SlotType>:$reads, Variadic<Plan_SlotType>:$writes,
                       DenseI64ArrayAttr:$sizes);
  let assemblyFormat = "$function `(` $reads `)` `->` `(` $writes `)` `sizes` $sizes attr-dict";
}
def AttentionOp : Plan_Instruction<"attention"> {
  let summary = "Attention by the target's library; see table Attention of runtime/plan.fbs";
  let description = [{Reads query, key, value; with `backward` also the result, lse and the gradient. Writes result and lse, or
    the gradients of query, key and value. With `padded` it reads lengths besides, with `dropout`, its rate, at last seed and
    offset of the library's generator. `nondeterministic` lets the backward add in any order. `sizes` is batch, heads, key
    heads, tokens, head size; `places` holds offset and strides of batch, token and head for each tensor of heads.}];
  let arguments = (ins Variadic<Plan_SlotType>:$reads, Variadic<Plan_SlotType>:$writes, Optional<Plan_SlotType>:$scratch,
                       UnitAttr:$backward, UnitAttr:$nondeterministic, UnitAttr:$causal, UnitAttr:$padded, F64Attr:$scale,
                       OptionalAttr<F64Attr>:$dropout, DenseI64ArrayAttr:$sizes, DenseI64ArrayAttr:$places);
  let assemblyFormat = [{(`backward` $backward^)? (`nondeterministic` $nondeterministic^)? (`causal` $causal^)?
                         (`padded` $padded^)? `(` $reads `)` `->` `(` $writes `)`
                         (`scratch` $scratch^)? `scale` $scale (`dropout` $dropout^)? `sizes` $sizes `places` $places attr-dict}];
}
def CopyOp : Plan_Instruction<"copy"> {
  let summary = "Copies a whole slot";
  let arguments = (ins Variadic<Plan_SlotType>:$reads, Variadic<Plan_SlotType>:$writes);
  let assemblyFormat = "`(` $reads `)` `->` `(` $writes `)` attr-dict";
}
#endif
