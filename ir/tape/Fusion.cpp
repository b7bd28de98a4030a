#include "ir/tape/Fusion.h"

#include "ir/tape/MatMul.h"

#define GET_OP_CLASSES
#include "ir/tape/Fusion.cpp.inc"

using namespace mlir;

namespace tapeout::tape {

void registerFusionOps(TapeDialect &dialect) {
  addOps<
#define GET_OP_LIST
#include "ir/tape/Fusion.cpp.inc"
      >(dialect);
}

DotGeneralOp productOf(FusionOp fusion) { return dyn_cast<DotGeneralOp>(fusion.getBody().front().front()); }

LogicalResult FusionOp::verify() {
  Block &body = getBody().front();
  if (body.getArgumentTypes() != getOperandTypes())
    return emitOpError("region arguments do not match the operands");
  auto yield = dyn_cast<YieldOp>(body.getTerminator());
  if (!yield || yield.getOperandTypes() != getResultTypes())
    return emitOpError("the region must end in a tape.yield of the results");
  int64_t tensors = getTensors(), ops = body.getOperations().size() - 1;
  if (tensors < 1 || ops % tensors != 0 || getNumResults() % tensors != 0)
    return emitOpError("cannot divide ") << ops << " ops and " << getNumResults() << " results among " << tensors << " tensors";
  return success();
}

} // namespace tapeout::tape
