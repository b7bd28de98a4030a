// The one encoding of tensor types: placement on the mesh and layout in memory.
#ifndef TAPEOUT_IR_TAPE_ENCODING_TD
#define TAPEOUT_IR_TAPE_ENCODING_TD

include "mlir/IR/AttrTypeBase.td"
include "mlir/IR/TensorEncoding.td"
include "ir/tape/Base.td"

def Tape_EncodingAttr : AttrDef<TapeDialect, "Encoding", [DeclareAttrInterfaceMethods<VerifiableTensorEncoding>]> {
  let mnemonic = "encoding";
  let summary = "Placement per mesh axis and order of dimensions in memory";
  let description = [{
    `tensor<8x4xf32, #tape.encoding<placement = [shard(0), partial(sum)], layout = [1, 0]>>`: on the first mesh axis each
    device has a part of dimension 0, on the second the value is a sum still to be made; dimension 1 is the outermost in
    memory. A type without encoding is replicated and row-major, as is an empty list.
  }];
  let parameters = (ins ArrayRefParameter<"::tapeout::tape::AxisPlacement">:$placement, ArrayRefParameter<"int64_t">:$layout);
  let hasCustomAssemblyFormat = 1;
}
#endif
