// The tape dialect: static-shape tensors, pure ops, one family per file.
#ifndef TAPEOUT_IR_TAPE_BASE_TD
#define TAPEOUT_IR_TAPE_BASE_TD

include "mlir/IR/OpBase.td"
include "mlir/IR/EnumAttr.td"
include "mlir/Interfaces/SideEffectInterfaces.td"
include "mlir/Interfaces/InferTypeOpInterface.td"
include "ir/tape/Interfaces.td"

def TapeDialect : Dialect {
  let name = "tape";
  let cppNamespace = "::tapeout::tape";
  let summary = "A training step as a graph of tensor ops.";
  let description = [{
    Static-shape tensors; ops are pure. Parameters, optimizer state and counters are arguments and results of the
    training step, tied by the attribute `tape.updates` on results. Source-layer names travel as locations.
  }];
  let hasConstantMaterializer = 1;
  let useDefaultAttributePrinterParser = 1;
  let extraClassDeclaration = [{ void registerAttributes(); }];
}

def Tape_Float : AnyTypeOf<[F32, F64, BF16, F16]>;
def Tape_Element : AnyTypeOf<[F32, F64, BF16, F16, I1, I32, I64]>;
def Tape_Tensor : StaticShapeTensorOf<[Tape_Element]>;
def Tape_FloatTensor : StaticShapeTensorOf<[Tape_Float]>;
def Tape_I32Tensor : StaticShapeTensorOf<[I32]>;
def Tape_IndexTensor : StaticShapeTensorOf<[I32, I64]>;
def Tape_BoolTensor : StaticShapeTensorOf<[I1]>;
def Tape_ScalarF64 : 0DTensorOf<[F64]>;
def Tape_ScalarI64 : 0DTensorOf<[I64]>, BuildableType<"::mlir::RankedTensorType::get({}, $_builder.getI64Type())">;
def Tape_ScalarFloat : 0DTensorOf<[Tape_Float]>;

// A string attribute with a fixed set of values: reads the same in a model file, in IR text and in C++.
class Tape_Keyword<list<string> words> : ConfinedAttr<StrAttr, [AttrConstraint<
    Or<!foreach(word, words, CPred<"::llvm::cast<::mlir::StringAttr>($_self).getValue() == \"" # word # "\"">)>,
    "one of " # !interleave(words, ", ")>]>;

// Type inference from the adaptor, after it has checked that the attributes are there: a model file may lack some.
def CheckedInference : TraitList<[DeclareOpInterfaceMethods<InferTypeOpInterface>, NativeOpTrait<"InferTypeOpAdaptor", [], [{
    static ::llvm::LogicalResult inferReturnTypes(::mlir::MLIRContext *context, std::optional<::mlir::Location> location,
        Adaptor adaptor, ::llvm::SmallVectorImpl<::mlir::Type> &types);
  }], [{
    ::llvm::LogicalResult $cppClass::inferReturnTypes(::mlir::MLIRContext *context, std::optional<::mlir::Location> location,
        ::mlir::ValueRange operands, ::mlir::DictionaryAttr attributes, ::mlir::OpaqueProperties properties,
        ::mlir::RegionRange regions, ::llvm::SmallVectorImpl<::mlir::Type> &types) {
      // Parsed from text, attributes of the dictionary are not among the properties yet.
      ::tapeout::tape::detail::completeProperties<$cppClass>(properties, attributes);
      $cppClass::Adaptor adaptor(operands, attributes, properties, regions);
      if (location && ::mlir::failed(adaptor.verify(*location)))
        return ::mlir::failure();
      return $cppClass::inferReturnTypes(context, location, adaptor, types);
    }
  }]>]>;

defvar Placeable = DeclareOpInterfaceMethods<PlaceableOpInterface>;
defvar CostFlops = DeclareOpInterfaceMethods<CostModelOpInterface, ["getFlops"]>;

// Every op says its AMP class and its fusion kind: leaving one out is a TableGen error.
class Tape_Op<string mnemonic, string amp, string fusion, list<Trait> traits = [],
              Trait inference = CheckedInference, Trait cost = CostModelOpInterface, Trait placement = Placeable>
    : Op<TapeDialect, mnemonic, !listconcat(traits, [Pure, FactsOpInterface, cost, inference, placement])> {
  code facts = [{
    static ::tapeout::tape::AmpClass getAmpClass() { return ::tapeout::tape::AmpClass::}] # amp # [{; }
    static ::tapeout::tape::FusionKind getFusionKind() { return ::tapeout::tape::FusionKind::}] # fusion # [{; }
  }];
  let extraClassDeclaration = facts;
}

defvar Differentiable = DeclareOpInterfaceMethods<DifferentiableOpInterface>;
defvar ScalarBody = DeclareOpInterfaceMethods<ScalarBodyOpInterface>;
defvar Access = DeclareOpInterfaceMethods<AccessOpInterface>;
defvar Decomposable = DeclareOpInterfaceMethods<DecomposableOpInterface>;
defvar Stateful = DeclareOpInterfaceMethods<StatefulOpInterface>;
defvar StridedCall = DeclareOpInterfaceMethods<StridedCallOpInterface>;
defvar StridedKernelCall = DeclareOpInterfaceMethods<StridedCallOpInterface, ["isSelected"]>;
defvar Scratch = DeclareOpInterfaceMethods<ScratchOpInterface>;
defvar StatesShape = DeclareOpInterfaceMethods<ResultShapeOpInterface>; // by its attribute `shape`, else in C++
defvar Window = DeclareOpInterfaceMethods<WindowOpInterface>;
defvar WideResult = DeclareOpInterfaceMethods<WideResultOpInterface>;
defvar Stochastic = DeclareOpInterfaceMethods<StochasticOpInterface>;

// A library call executes the op: no kernel is generated for it.
def LibraryCall : NativeOpTrait<"LibraryCall"> { let cppNamespace = "::tapeout::tape"; }
// Of a library call: the library is ours. A kernel written by hand executes the op (codegen/cuda/device/).
def HandWrittenKernel : NativeOpTrait<"HandWrittenKernel"> { let cppNamespace = "::tapeout::tape"; }

// Operands have the result's shape or rank 0 (one value for every element).
def ElementwiseShapes : NativeOpTrait<"ElementwiseShapes"> { let cppNamespace = "::tapeout::tape"; }
// Results have the operands' common shape and the element type of the first operand that is not a single number.
def LikeFirstOperandTrait : NativeOpTrait<"LikeFirstOperand"> { let cppNamespace = "::tapeout::tape"; }
def LikeFirstOperand : TraitList<[InferTypeOpInterface, LikeFirstOperandTrait]>;

// Shards as its operands do. `linear` lists sets of operands, bit i for operand i: with the others fixed, the op is linear
// in those of a set together, so that a sum over devices may wait until after it.
class ElementwisePlacementTrait<string linear> : ParamNativeOpTrait<"ElementwisePlacement", linear> {
  let cppNamespace = "::tapeout::tape";
}
class ElementwisePlaceable<string linear> : TraitList<[PlaceableOpInterface, ElementwisePlacementTrait<linear>]>;

class Tape_Elementwise<string mnemonic, string amp, string linear, list<Trait> traits = [],
                       Trait inference = LikeFirstOperand, Trait placement = ElementwisePlaceable<linear>>
    : Tape_Op<mnemonic, amp, "Elementwise", !listconcat(traits, [ElementwiseShapes, ScalarBody]), inference,
              CostModelOpInterface, placement>;

// Stays whole until its gradient is built, then becomes smaller ops.
class Tape_Semantic<string mnemonic, string amp, list<Trait> traits = []>
    : Tape_Op<mnemonic, amp, "Opaque", !listconcat(traits, [Decomposable])>;

#endif
