// tape-plan-memory: gives every slot its place. Transient slots of a program share the arena according to their
// lifetimes; programs never run at the same time, so they share it, too. Persistent slots lie one after another.
#include "passes/Passes.h"

#include "ir/plan/Plan.h"
#include "passes/analysis/MemoryPacking.h"

#include "mlir/IR/BuiltinOps.h"

#include "llvm/ADT/MapVector.h"

using namespace mlir;

namespace tapeout {
#define GEN_PASS_DEF_PLANMEMORY
#include "passes/Passes.h.inc"

namespace {

/// From the first to the last instruction that touches each arena slot of a program, in order of first touch.
llvm::MapVector<Operation *, LiveBuffer> findLifetimes(plan::ProgramOp program) {
  llvm::MapVector<Operation *, LiveBuffer> lifetimes;
  uint32_t time = 0;
  for (Operation &instruction : program.getBody().front()) {
    for (Value operand : instruction.getOperands()) {
      auto slot = operand.getDefiningOp<plan::SlotOp>();
      if (slot.getKind() != "arena")
        continue;
      auto [entry, isNew] = lifetimes.try_emplace(slot, LiveBuffer{static_cast<uint64_t>(slot.getBytes()), time, time});
      entry->second.end = time;
    }
    ++time;
  }
  return lifetimes;
}

struct PlanMemory : impl::PlanMemoryBase<PlanMemory> {
  void runOnOperation() override {
    Builder builder(&getContext());
    uint64_t arena = 0, live = 0, persistent = 0;
    for (auto program : getOperation().getOps<plan::ProgramOp>()) {
      auto lifetimes = findLifetimes(program);
      std::vector<LiveBuffer> buffers;
      for (auto &[slot, buffer] : lifetimes)
        buffers.push_back(buffer);
      Packing packing = packMemory(buffers);
      size_t next = 0;
      for (auto &[slot, buffer] : lifetimes)
        cast<plan::SlotOp>(slot).setOffsetAttr(builder.getI64IntegerAttr(packing.offsets[next++]));
      arena = std::max(arena, packing.bytes);
      live = std::max(live, peakLiveBytes(buffers));
    }
    for (auto slot : getOperation().getOps<plan::SlotOp>())
      if (slot.getKind() != "arena") {
        slot.setOffsetAttr(builder.getI64IntegerAttr(persistent));
        persistent += slot.getBytes();
      }
    arenaBytes = arena;
    liveBytes = live;
    getOperation()->setAttr("plan.arena_bytes", builder.getI64IntegerAttr(arena));
    getOperation()->setAttr("plan.persistent_bytes", builder.getI64IntegerAttr(persistent));
  }
};

} // namespace
} // namespace tapeout
