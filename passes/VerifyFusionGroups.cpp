// tape-verify-fusion-groups: outside of groups only library calls and what costs no kernel, inside only ops a kernel can
// be generated for, behind one matrix product at most. Changes nothing.
#include "passes/Functions.h"
#include "passes/KernelGraph.h"
#include "passes/Passes.h"

#include "ir/tape/Fusion.h"
#include "ir/tape/MatMul.h"
#include "ir/tape/Shape.h"
#include "ir/tape/Strided.h"

using namespace mlir;

namespace tapeout {
#define GEN_PASS_DEF_VERIFYFUSIONGROUPS
#include "passes/Passes.h.inc"

namespace {

/// What a product is added to is the product before, at the same place.
bool isAddedInPlace(tape::DotGeneralOp dot) {
  auto before = dot.getAddend().getDefiningOp<tape::DotGeneralOp>();
  auto first = before ? tape::placeProduct(before) : std::nullopt, second = tape::placeProduct(dot);
  return first && second && before->hasOneUse() && first->result.base == second->result.base &&
         first->result.offset == second->result.offset && first->result.strides == second->result.strides;
}

LogicalResult verifyOutside(Operation &op) {
  if (auto matmul = dyn_cast<tape::DotGeneralOp>(op); matmul && !tape::placeProduct(matmul))
    return op.emitError("is no product of the target's library; run decompose first");
  if (auto matmul = dyn_cast<tape::DotGeneralOp>(op); matmul && matmul.getAddend() && !isAddedInPlace(matmul))
    return op.emitError("does not find what it is added to where it writes; run decompose first");
  if (auto call = dyn_cast<tape::StridedCallOpInterface>(op); call && !call.isSelected())
    return op.emitError("was not selected to be a library call; run decompose first");
  if (isa<tape::FusionOp>(op) || tape::isLibraryCall(&op) || isElided(&op))
    return success();
  return op.emitError("is in no fusion group");
}

LogicalResult verifyInside(Operation &op) {
  if (auto product = dyn_cast<tape::DotGeneralOp>(op); product && &op == &op.getBlock()->front())
    return verifyOutside(op);
  auto facts = dyn_cast<tape::FactsOpInterface>(op);
  if (!facts || tape::isLibraryCall(&op) || facts.getFusionKind() == tape::FusionKind::Barrier)
    return op.emitError("cannot be part of a generated kernel");
  return success();
}

struct VerifyFusionGroups : impl::VerifyFusionGroupsBase<VerifyFusionGroups> {
  void runOnOperation() override {
    bool failed = false;
    for (auto func : getOperation().getOps<func::FuncOp>())
      for (Operation &op : func.getBody().front().without_terminator()) {
        failed |= mlir::failed(verifyOutside(op));
        if (auto fusion = dyn_cast<tape::FusionOp>(op))
          for (Operation &inner : fusion.getBody().front().without_terminator())
            failed |= mlir::failed(verifyInside(inner));
      }
    if (failed)
      signalPassFailure();
  }
};

} // namespace
} // namespace tapeout
