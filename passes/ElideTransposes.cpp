// tape-elide-transposes: a product that reads a transposed tensor reads the tensor itself, by other dimension numbers.
// Exporters write x W^T as two ops. The products of the runtime take any strides, so the copy is a waste.
#include "passes/Passes.h"

#include "ir/tape/MatMul.h"
#include "ir/tape/Shape.h"

#include "mlir/IR/BuiltinOps.h"

using namespace mlir;

namespace tapeout {
#define GEN_PASS_DEF_ELIDETRANSPOSES
#include "passes/Passes.h.inc"

namespace {

using Ints = ArrayRef<int64_t>;

/// Dimension i of a transpose's result is dimension permutation[i] of its operand.
SmallVector<int64_t> throughTranspose(Ints dimensions, Ints permutation) {
  return llvm::map_to_vector(dimensions, [&](int64_t d) { return permutation[d]; });
}

/// The free dimensions of an operand are dimensions of the product, in ascending order. Without the transpose they must
/// come in the same order.
bool keepsFreeOrder(Ints batch, Ints contract, Ints permutation) {
  int64_t previous = -1;
  for (int64_t d = 0; d < int64_t(permutation.size()); ++d) {
    if (llvm::is_contained(batch, d) || llvm::is_contained(contract, d))
      continue;
    if (permutation[d] < previous)
      return false;
    previous = permutation[d];
  }
  return true;
}

/// Whether the left (or right) operand was a transpose that is not needed.
bool elideOperand(tape::DotGeneralOp dot, bool left) {
  OpOperand &operand = left ? dot.getLhsMutable() : dot.getRhsMutable();
  Ints batch = left ? dot.getLhsBatch() : dot.getRhsBatch(), contract = left ? dot.getLhsContract() : dot.getRhsContract();
  auto transpose = operand.get().getDefiningOp<tape::TransposeOp>();
  if (!transpose || !keepsFreeOrder(batch, contract, transpose.getPermutation()))
    return false;
  SmallVector<int64_t> newBatch = throughTranspose(batch, transpose.getPermutation());
  SmallVector<int64_t> newContract = throughTranspose(contract, transpose.getPermutation());
  left ? dot.setLhsBatch(newBatch) : dot.setRhsBatch(newBatch);
  left ? dot.setLhsContract(newContract) : dot.setRhsContract(newContract);
  operand.set(transpose.getOperand());
  if (transpose->use_empty())
    transpose->erase();
  return true;
}

struct ElideTransposes : impl::ElideTransposesBase<ElideTransposes> {
  void runOnOperation() override {
    getOperation().walk([&](tape::DotGeneralOp dot) {
      for (bool left : {true, false})
        while (elideOperand(dot, left)) // of a transpose of a transpose, both
          ++elided;
    });
  }
};

} // namespace
} // namespace tapeout
