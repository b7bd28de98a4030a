#include "ir/plan/Plan.h"

#include "ir/tape/Tape.h"

#include "mlir/IR/DialectImplementation.h"
#include "llvm/ADT/TypeSwitch.h"
#include "llvm/Support/MathExtras.h"

#include "ir/plan/PlanDialect.cpp.inc"
#include "ir/plan/PlanInterfaces.cpp.inc"

#define GET_TYPEDEF_CLASSES
#include "ir/plan/PlanTypes.cpp.inc"

#define GET_OP_CLASSES
#include "ir/plan/PlanOps.cpp.inc"

using namespace mlir;

namespace tapeout::plan {

void PlanDialect::initialize() {
  addTypes<
#define GET_TYPEDEF_LIST
#include "ir/plan/PlanTypes.cpp.inc"
      >();
  addOperations<
#define GET_OP_LIST
#include "ir/plan/PlanOps.cpp.inc"
      >();
}

RankedTensorType scratchType(Builder &builder, int64_t bytes) {
  return RankedTensorType::get({(bytes + 3) / 4}, builder.getF32Type());
}

int64_t SlotOp::getBytes() { return llvm::alignTo(tape::totalBytes({getType()}), kAlignment); }

} // namespace tapeout::plan
