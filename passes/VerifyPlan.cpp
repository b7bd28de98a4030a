// tape-verify-plan: replays each program on the planned memory. Every arena byte range remembers which slot wrote it
// last; a read must find its own slot there, whole. So it catches reads before writes, overlapping live slots and
// overwritten values alike, however the offsets came about. Changes nothing.
#include "passes/Passes.h"

#include "ir/plan/Plan.h"

#include "mlir/IR/BuiltinOps.h"

#include "llvm/ADT/DenseSet.h"

#include <map>

using namespace mlir;

namespace tapeout {
#define GEN_PASS_DEF_VERIFYPLAN
#include "passes/Passes.h.inc"

namespace {

/// Which slot wrote which bytes last: disjoint ranges by their begin.
class WrittenBytes {
public:
  void write(Operation *slot, int64_t begin, int64_t end) {
    auto it = ranges_.lower_bound(begin);
    if (it != ranges_.begin())
      it = std::prev(it);
    while (it != ranges_.end() && it->first < end) {
      auto [oldBegin, old] = *it;
      if (old.end <= begin) {
        ++it;
        continue;
      }
      it = ranges_.erase(it);
      if (oldBegin < begin)
        ranges_[oldBegin] = {begin, old.slot};
      if (old.end > end)
        it = ranges_.insert({end, {old.end, old.slot}}).first;
    }
    ranges_[begin] = {end, slot};
  }

  bool holds(Operation *slot, int64_t begin, int64_t end) const {
    auto it = ranges_.find(begin);
    return it != ranges_.end() && it->second.slot == slot && it->second.end >= end;
  }

private:
  struct Range {
    int64_t end;
    Operation *slot;
  };
  std::map<int64_t, Range> ranges_;
};

LogicalResult verifySlot(plan::SlotOp slot, int64_t arenaBytes, int64_t persistentBytes) {
  if (!slot.getOffset())
    return slot.getSlot().use_empty() ? success() : slot.emitError("has no offset; run plan-memory first");
  int64_t offset = *slot.getOffset(), limit = slot.getKind() == "arena" ? arenaBytes : persistentBytes;
  if (offset < 0 || offset % plan::SlotOp::kAlignment != 0 || offset + slot.getBytes() > limit)
    return slot.emitError() << "at " << offset << " is misaligned or outside its region of " << limit << " bytes";
  return success();
}

LogicalResult verifyPersistentDisjoint(ModuleOp module) {
  std::map<int64_t, plan::SlotOp> byOffset;
  for (auto slot : module.getOps<plan::SlotOp>())
    if (slot.getKind() != "arena" && !byOffset.try_emplace(*slot.getOffset(), slot).second)
      return slot.emitError("shares its place with another persistent slot");
  int64_t end = 0;
  for (auto &[offset, slot] : byOffset) {
    if (offset < end)
      return slot.emitError("overlaps another persistent slot");
    end = offset + slot.getBytes();
  }
  return success();
}

/// Scratch memory lies beside all that the instruction reads and writes.
LogicalResult verifyScratch(plan::InstructionOpInterface instruction) {
  if (!instruction.getScratch())
    return success();
  auto scratch = instruction.getScratch().getDefiningOp<plan::SlotOp>();
  if (scratch.getKind() != "arena")
    return instruction.emitError() << "uses slot '" << scratch.getSym() << "' as scratch memory, which is not in the arena";
  auto beginOf = [](plan::SlotOp slot) { return static_cast<int64_t>(*slot.getOffset()); };
  auto endOf = [&](plan::SlotOp slot) { return beginOf(slot) + slot.getBytes(); };
  for (Value value : instruction->getOperands()) {
    auto slot = value.getDefiningOp<plan::SlotOp>();
    if (slot != scratch && slot.getKind() == "arena" && beginOf(slot) < endOf(scratch) && endOf(slot) > beginOf(scratch))
      return instruction.emitError() << "uses the memory of slot '" << slot.getSym() << "' as scratch memory";
  }
  return success();
}

LogicalResult verifyProgram(plan::ProgramOp program) {
  WrittenBytes written;
  llvm::DenseSet<Operation *> writtenOutputs;
  for (Operation &op : program.getBody().front()) {
    auto instruction = cast<plan::InstructionOpInterface>(op);
    for (Value value : instruction.getReads()) {
      auto slot = value.getDefiningOp<plan::SlotOp>();
      int64_t begin = slot.getOffset().value_or(0);
      if (slot.getKind() == "arena" && !written.holds(slot, begin, begin + slot.getBytes()))
        return op.emitError() << "reads slot '" << slot.getSym() << "', which does not hold its value any more or yet";
      if (slot.getKind() == "output" && !writtenOutputs.contains(slot))
        return op.emitError() << "reads the output slot '" << slot.getSym() << "' before it is written";
    }
    if (failed(verifyScratch(instruction)))
      return failure();
    SmallVector<Value> writes(instruction.getWrites());
    if (Value scratch = instruction.getScratch())
      writes.push_back(scratch);
    for (Value value : writes) {
      auto slot = value.getDefiningOp<plan::SlotOp>();
      StringRef kind = slot.getKind();
      if (kind == "input" || kind == "config" || slot->hasAttr("tape.frozen"))
        return op.emitError() << "writes slot '" << slot.getSym() << "', which programs only read";
      if (kind == "output")
        writtenOutputs.insert(slot);
      if (kind == "arena")
        written.write(slot, *slot.getOffset(), *slot.getOffset() + slot.getBytes());
    }
  }
  return success();
}

struct VerifyPlan : impl::VerifyPlanBase<VerifyPlan> {
  void runOnOperation() override {
    auto bytes = [&](StringRef name) {
      auto attribute = getOperation()->getAttrOfType<IntegerAttr>(name);
      return attribute ? attribute.getInt() : 0;
    };
    bool failed = false;
    for (auto slot : getOperation().getOps<plan::SlotOp>())
      failed |= mlir::failed(verifySlot(slot, bytes("plan.arena_bytes"), bytes("plan.persistent_bytes")));
    failed = failed || mlir::failed(verifyPersistentDisjoint(getOperation()));
    for (auto program : getOperation().getOps<plan::ProgramOp>())
      failed = failed || mlir::failed(verifyProgram(program));
    if (failed)
      signalPassFailure();
  }
};

} // namespace
} // namespace tapeout
