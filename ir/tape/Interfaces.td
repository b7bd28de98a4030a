// What passes and code generation may ask of an op. Each is stated once, on the op; nobody lists ops.
#ifndef TAPEOUT_IR_TAPE_INTERFACES_TD
#define TAPEOUT_IR_TAPE_INTERFACES_TD

include "mlir/IR/OpBase.td"

def FactsOpInterface : OpInterface<"FactsOpInterface"> {
  let description = [{The AMP class and the fusion kind, mandatory for every op (arguments of the ODS base class).}];
  let cppNamespace = "::tapeout::tape";
  let methods = [
    StaticInterfaceMethod<"How mixed precision treats the op: Always, Follow, Never or Inside.", "::tapeout::tape::AmpClass",
      "getAmpClass">,
    StaticInterfaceMethod<"How the op takes part in fusion.", "::tapeout::tape::FusionKind", "getFusionKind">,
    StaticInterfaceMethod<"Operands that a model file may leave out: the last ones, but for the key of random numbers.", "unsigned",
      "getOptionalOperands", (ins), "", [{ return 0; }]>,
    StaticInterfaceMethod<"Whether an operand stays f32 although the op runs in low precision.", "bool", "keepsPrecision",
      (ins "unsigned":$operand), "", [{ return false; }]>,
  ];
}

def DifferentiableOpInterface : OpInterface<"DifferentiableOpInterface"> {
  let description = [{
    Reverse-mode gradient. Builds tape ops only. `resultGradients` has one value per result, null where nothing flows
    back; appends one value per operand, null where no gradient exists (integer operands, for one).
  }];
  let cppNamespace = "::tapeout::tape";
  let methods = [InterfaceMethod<"Appends the gradients of the operands.", "void", "buildGradient",
    (ins "::mlir::OpBuilder &":$builder, "::llvm::ArrayRef<::mlir::Value>":$resultGradients,
         "::llvm::SmallVectorImpl<::mlir::Value> &":$operandGradients)>];
}

def ScalarBodyOpInterface : OpInterface<"ScalarBodyOpInterface"> {
  let description = [{
    The arith/math computation of one element: of an elementwise op (one argument per operand), or the combiner of a
    reduction (two arguments). Arguments are scalars or vectors alike, so constants are made with `ScalarBuilder::constant(like, value)`.
    `index` is the row-major linear index of the element in the result (i64, or a vector of i64).
    One body serves the interpreter and every target.
  }];
  let cppNamespace = "::tapeout::tape";
  let methods = [InterfaceMethod<"Appends one value per result.", "void", "buildScalarBody",
    (ins "::mlir::OpBuilder &":$builder, "::mlir::Location":$loc, "::mlir::ValueRange":$arguments,
         "::mlir::Value":$index, "::llvm::SmallVectorImpl<::mlir::Value> &":$results)>];
}

def AccessOpInterface : OpInterface<"AccessOpInterface"> {
  let description = [{Injective ops with one operand: which element of the operand a result element is.}];
  let cppNamespace = "::tapeout::tape";
  let methods = [InterfaceMethod<"The access of the operand, or none if it is not strided.",
    "::std::optional<::tapeout::tape::StridedAccess>", "getAccess">];
}

def CostModelOpInterface : OpInterface<"CostModelOpInterface"> {
  let description = [{What one execution costs. Bytes are those of operands and results unless an op knows better.}];
  let cppNamespace = "::tapeout::tape";
  let methods = [
    InterfaceMethod<"Floating-point operations.", "uint64_t", "getFlops", (ins), "",
      [{ return ::tapeout::tape::elementCount($_op->getResult(0).getType()); }]>,
    InterfaceMethod<"Bytes read.", "uint64_t", "getBytesRead", (ins), "",
      [{ return ::tapeout::tape::totalBytes($_op->getOperandTypes()); }]>,
    InterfaceMethod<"Bytes written.", "uint64_t", "getBytesWritten", (ins), "",
      [{ return ::tapeout::tape::totalBytes($_op->getResultTypes()); }]>,
  ];
}

def DecomposableOpInterface : OpInterface<"DecomposableOpInterface"> {
  let description = [{
    A semantic op that stays whole until its gradient is built and is then rewritten into smaller tape ops. An op that
    is already primitive in its present form appends nothing.
  }];
  let cppNamespace = "::tapeout::tape";
  let methods = [InterfaceMethod<"Appends one replacement per result, or nothing.", "void", "decompose",
    (ins "::mlir::OpBuilder &":$builder, "::llvm::SmallVectorImpl<::mlir::Value> &":$results)>];
}

def StochasticOpInterface : OpInterface<"StochasticOpInterface"> {
  let description = [{
    An op that draws random numbers in training. They are keyed by (seed, step, stream, element index): a mask does not
    depend on fusion, recompute, the order of microbatches or a resume, and a gradient draws the same mask again.
  }];
  let cppNamespace = "::tapeout::tape";
  let methods = [
    InterfaceMethod<"Whether anything is drawn.", "bool", "isStochastic">,
    InterfaceMethod<"Whether the key is already there.", "bool", "hasRandomKey">,
    InterfaceMethod<"Gives the op its key: rank-0 i64 seed and step, and a stream unique in the model.", "void",
      "setRandomKey", (ins "::mlir::Value":$seed, "::mlir::Value":$step, "uint64_t":$stream)>,
    InterfaceMethod<"Evaluation: draws nothing any more.", "void", "dropRandomness">,
  ];
}

def StatefulOpInterface : OpInterface<"StatefulOpInterface"> {
  let description = [{
    An op that keeps a state from step to step, which training updates without a gradient: running statistics. The state
    are parameters of the model that nothing else reads in a training step. Evaluation reads the state and leaves it.
  }];
  let cppNamespace = "::tapeout::tape";
  let methods = [
    InterfaceMethod<"Pairs of an operand and the result that is its new value.",
      "::llvm::SmallVector<std::pair<unsigned, unsigned>>", "getStateUpdates">,
    InterfaceMethod<"Evaluation: replaces the op's results by the state.", "void", "useState">,
  ];
}

def WindowOpInterface : OpInterface<"WindowOpInterface"> {
  let description = [{A library call that slides a window over planes. Which one it is, is the op's name.}];
  let cppNamespace = "::tapeout::tape";
  let methods = [InterfaceMethod<"All its sizes.", "::tapeout::tape::WindowSizes", "getWindowSizes">];
}

def StridedCallOpInterface : OpInterface<"StridedCallOpInterface"> {
  let description = [{
    An op that, once it is selected to be a library call, can read operands where they lie, behind slices and transposes, and
    write results where they belong, before transposes and concatenations.
  }];
  let cppNamespace = "::tapeout::tape";
  let methods = [
    InterfaceMethod<"Whether it is a library call; otherwise it has to be decomposed.", "bool", "isSelected", (ins), "",
      "return $_op.getLibrary();">,
    InterfaceMethod<"Whether the operand may lie with these strides, one per dimension.", "bool", "readsStrides",
      (ins "unsigned":$operand, "::llvm::ArrayRef<int64_t>":$strides)>,
    InterfaceMethod<"Whether the result may lie with these strides, one per dimension.", "bool", "writesStrides",
      (ins "unsigned":$result, "::llvm::ArrayRef<int64_t>":$strides)>,
  ];
}

def ScratchOpInterface : OpInterface<"ScratchOpInterface"> {
  let description = [{
    A library call that needs memory of its own while it runs. It may do with less, in more time.
  }];
  let cppNamespace = "::tapeout::tape";
  let methods = [InterfaceMethod<"Bytes it can do with, the most and fastest first; none: it needs no memory.",
    "::llvm::SmallVector<int64_t>", "getScratchSizes">];
}

def WideResultOpInterface : OpInterface<"WideResultOpInterface"> {
  let description = [{
    A product or a sum of products. Whatever the precision of its operands, it adds in f32; it may then return the sums
    as they are instead of rounding them to the operands' type.
  }];
  let cppNamespace = "::tapeout::tape";
  let methods = [InterfaceMethod<"Makes the result, which is of the operands' type, f32.", "void", "widenResult">];
}

def ResultShapeOpInterface : OpInterface<"ResultShapeOpInterface"> {
  let description = [{An op that states the shape of its result, which does not follow from its operands.}];
  let cppNamespace = "::tapeout::tape";
  let methods = [InterfaceMethod<"States another shape.", "void", "setResultShape",
    (ins "::llvm::ArrayRef<int64_t>":$shape), "", "$_op.setShape(shape);">];
}

def PlaceableOpInterface : OpInterface<"PlaceableOpInterface"> {
  let description = [{
    How placements on one mesh axis pass through the op. Everything replicated is always allowed and not listed; every
    other way needs a rule, so an op without rules is right and slow. Where several rules fit the operands, the
    preferred one comes first. An op that draws random numbers needs its global element index besides.
  }];
  let cppNamespace = "::tapeout::tape";
  let methods = [InterfaceMethod<"Appends the rules.", "void", "getPlacementRules",
    (ins "::tapeout::tape::PlacementRules &":$rules)>];
}

#endif
