// tape-plan-memory: gives every slot its place. Transient slots of a program share the arena according to their
// lifetimes; programs never run at the same time, so they share it, too. Scratch memory gets what is free while its
// instruction runs. Persistent slots lie one after another.
#include "passes/Passes.h"

#include "ir/plan/Plan.h"
#include "passes/analysis/MemoryPacking.h"
#include "passes/analysis/ScratchPlaces.h"

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

// What scratch memory may take although the arena grows by it: attention in many slices would cost more time than it is worth.
constexpr uint64_t kGrantedScratch = uint64_t(512) << 20;

/// Gives the slots of a program their places, scratch memory its size, and says how large the arena is.
Packing placeSlots(const llvm::MapVector<Operation *, LiveBuffer> &lifetimes, std::vector<LiveBuffer> &buffers) {
  std::vector<ScratchBuffer> scratch;
  SmallVector<plan::SlotOp> slots, scratchSlots;
  for (auto &[op, buffer] : lifetimes) {
    auto slot = cast<plan::SlotOp>(op);
    std::optional<ArrayRef<int64_t>> sizes = slot.getSizes();
    (sizes ? scratchSlots : slots).push_back(slot);
    if (!sizes) {
      buffers.push_back(buffer);
      continue;
    }
    ScratchBuffer &choice = scratch.emplace_back(ScratchBuffer{buffer.begin, {}});
    for (int64_t bytes : *sizes)
      choice.sizes.push_back(llvm::alignTo(bytes, plan::SlotOp::kAlignment));
  }
  Packing packing = packMemory(buffers);
  std::vector<ScratchPlace> places = placeScratch(buffers, packing, scratch, kGrantedScratch);
  for (auto [slot, offset] : llvm::zip_equal(slots, packing.offsets))
    slot.setOffset(offset);
  for (auto [slot, place] : llvm::zip_equal(scratchSlots, places)) {
    Builder builder(slot.getContext());
    slot.setType(plan::scratchType(builder, place.bytes));
    slot.setOffset(place.offset);
    slot.removeSizesAttr();
  }
  return packing;
}

struct PlanMemory : impl::PlanMemoryBase<PlanMemory> {
  void runOnOperation() override {
    Builder builder(&getContext());
    uint64_t arena = 0, live = 0, persistent = 0;
    for (auto program : getOperation().getOps<plan::ProgramOp>()) {
      std::vector<LiveBuffer> buffers;
      Packing packing = placeSlots(findLifetimes(program), buffers);
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
