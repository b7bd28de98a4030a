// The op that holds one future kernel.
#ifndef TAPEOUT_IR_TAPE_FUSION_TD
#define TAPEOUT_IR_TAPE_FUSION_TD
include "mlir/Interfaces/ControlFlowInterfaces.td"
include "ir/tape/Base.td"

def FusionOp : Op<TapeDialect, "fusion", [Pure, IsolatedFromAbove, SingleBlock, FactsOpInterface]> {
  let summary = "A group of ops that becomes one kernel";
  let description = [{
    The region's arguments are the operands; `tape.yield` names the results. `tensors` greater than 1: the region computes
    the same for so many tensors of any sizes, one after the other, with as many ops and results for each.
  }];
  let arguments = (ins Variadic<Tape_Tensor>:$operands, DefaultValuedAttr<I64Attr, "1">:$tensors);
  let results = (outs Variadic<Tape_Tensor>:$results);
  let regions = (region SizedRegion<1>:$body);
  let hasVerifier = 1;
  let assemblyFormat = "`(` operands `)` attr-dict-with-keyword `:` functional-type(operands, results) $body";
  let extraClassDeclaration = [{
    static ::tapeout::tape::AmpClass getAmpClass() { return ::tapeout::tape::AmpClass::Follow; }
    static ::tapeout::tape::FusionKind getFusionKind() { return ::tapeout::tape::FusionKind::Opaque; }
  }];
}
def YieldOp : Op<TapeDialect, "yield", [Pure, Terminator, ReturnLike]> {
  let summary = "Ends the region of a fusion or kernel";
  let arguments = (ins Variadic<Tape_Tensor>:$operands);
  let assemblyFormat = "operands attr-dict `:` type(operands)";
}
#endif
