// tape-lower-to-plan: values become memory slots, ops become instructions.
//
//   1. arguments become persistent slots, shared by all programs that name them alike;
//   2. every other value gets a slot (SlotAssignment.h), but for what products read or write in place (ir/tape/Strided.h).
//      An updated parameter or state is written in place where nothing reads the old value later; a metric has an output slot; the
//      rest is transient (arena), and an elementwise result takes over the slot of an operand that dies;
//   3. fusion groups become launches of outlined kernels (equal kernels are one), products, convolutions and
//      poolings become calls of the runtime;
//   4. what a return still needs somewhere else is copied.
#include "passes/Functions.h"
#include "passes/KernelGraph.h"
#include "passes/KernelTraffic.h"
#include "passes/Passes.h"
#include "passes/PlanTables.h"
#include "passes/SlotAssignment.h"

#include "ir/plan/Plan.h"
#include "ir/tape/Attention.h"
#include "ir/tape/Fusion.h"
#include "ir/tape/MatMul.h"
#include "ir/tape/Shape.h"
#include "ir/tape/Strided.h"
#include "ir/tape/Target.h"

using namespace mlir;

namespace tapeout {
#define GEN_PASS_DEF_LOWERTOPLAN
#include "passes/Passes.h.inc"

namespace {

class ProgramLowering {
public:
  ProgramLowering(func::FuncOp func, PlanTables &tables)
      : func_(func), tables_(tables), slots_(func, tables), builder_(func.getContext()) {}

  void lower() {
    createProgram();
    Block &body = func_.getBody().front();
    for (Operation &op : body.without_terminator())
      lowerOp(op);
    copyResults(body.getTerminator());
  }

private:
  void createProgram() {
    SmallVector<Value> inputs;
    SmallVector<Attribute> inputNames;
    for (unsigned i : argumentsWithRole(func_, tape::kRoleInput)) {
      inputs.push_back(slots_.slotOf(func_.getArgument(i)));
      inputNames.push_back(builder_.getStringAttr(argumentAttr(func_, i, tape::kNameAttr)));
    }
    builder_.setInsertionPointToEnd(func_->getBlock());
    auto program = builder_.create<plan::ProgramOp>(func_.getLoc(), func_.getName(), inputs, slots_.outputs(),
                                                    builder_.getArrayAttr(inputNames), builder_.getArrayAttr(slots_.outputNames()));
    builder_.setInsertionPointToStart(&program.getBody().emplaceBlock());
  }

  void lowerOp(Operation &op) {
    if (isElided(&op)) {
      Value slot = slots_.slotOf(op.getOperand(0));
      if (isa<tape::ReshapeOp>(op) && slot)
        slots_.assign(op.getResult(0), slot);
      return;
    }
    if (auto dot = dyn_cast<tape::DotGeneralOp>(op)) {
      describe(createMatmul(dot, dot.getLhs(), dot.getRhs()), op, dot.getFlops(), dot.getBytesRead() + dot.getBytesWritten());
      return;
    }
    if (isa<tape::AttentionOp, tape::AttentionGradOp>(op)) {
      auto cost = cast<tape::CostModelOpInterface>(op);
      describe(createAttention(op), op, cost.getFlops(), cost.getBytesRead() + cost.getBytesWritten());
      return;
    }
    if (tape::isHandWrittenKernel(&op)) {
      auto cost = cast<tape::CostModelOpInterface>(op);
      describe(createLaunch(op), op, cost.getFlops(), cost.getBytesRead() + cost.getBytesWritten());
      return;
    }
    SmallVector<Value> reads, writes;
    for (Value operand : op.getOperands())
      reads.push_back(slots_.slotOf(operand));
    if (auto fusion = dyn_cast<tape::FusionOp>(op))
      slots_.chooseOverwritten(fusion);
    for (Value result : op.getResults())
      writes.push_back(slots_.slotFor(result));
    if (auto window = dyn_cast<tape::WindowOpInterface>(op)) {
      auto cost = cast<tape::CostModelOpInterface>(op);
      describe(createWindow(window, reads, writes), op, cost.getFlops(), cost.getBytesRead() + cost.getBytesWritten());
      return;
    }
    auto fusion = cast<tape::FusionOp>(op);
    uint64_t flops = 0, bytes = bytesMoved(fusion.getBody().front()); // before the region moves to the kernel
    fusion.getBody().walk([&](tape::CostModelOpInterface cost) { flops += cost.getFlops(); });
    if (tape::DotGeneralOp product = tape::productOf(fusion))
      describe(createMatmulWithEpilogue(fusion, product, reads, writes), op, flops, bytes);
    else
      describe(builder_.create<plan::LaunchOp>(op.getLoc(), tables_.kernelFor(fusion), reads, writes), op, flops, bytes);
  }

  void describe(Operation *instruction, Operation &op, uint64_t flops, uint64_t bytes) {
    instruction->setAttr("flops", builder_.getI64IntegerAttr(flops));
    instruction->setAttr("bytes", builder_.getI64IntegerAttr(bytes));
    if (Attribute phase = op.getAttr(tape::kPhaseAttr))
      instruction->setAttr(tape::kPhaseAttr, phase);
  }

  /// The region without its product becomes a kernel of [product, what else it reads].
  Operation *createMatmulWithEpilogue(tape::FusionOp fusion, tape::DotGeneralOp product, ArrayRef<Value> slots, ValueRange writes) {
    Block &body = fusion.getBody().front();
    auto outside = [&](Value argument) { return fusion.getOperand(cast<BlockArgument>(argument).getArgNumber()); };
    slots_.assign(product.getResult(), writes.front());
    plan::MatmulOp matmul = createMatmul(product, outside(product.getLhs()), outside(product.getRhs()));
    SmallVector<Value> reads(matmul.getReads());
    bool byPieces = tape::targetOf(fusion).tileEpilogues; // else the kernel runs behind the product, if the library adds no bias
    auto columns = byPieces ? builder_.getI64IntegerAttr(matmul.getSizes()[1]) : IntegerAttr();
    matmul.setBias(!byPieces);
    product.getResult().replaceAllUsesWith(body.insertArgument(0u, product.getType(), product.getLoc()));
    product.erase();
    for (unsigned i = body.getNumArguments(); i-- > 1;)
      if (body.getArgument(i).use_empty())
        body.eraseArgument(i);
      else
        reads.insert(reads.begin() + 2, slots[i - 1]);
    matmul.getReadsMutable().assign(reads);
    matmul.getWritesMutable().assign(writes);
    matmul.setEpilogue(tables_.kernelFor(fusion, columns));
    return matmul;
  }

  Operation *createWindow(tape::WindowOpInterface op, ValueRange reads, ValueRange writes) {
    tape::WindowSizes w = op.getWindowSizes();
    const int64_t sizes[] = {w.batch,       w.channels,  w.filters,  w.height,  w.width,   w.kernelHeight, w.kernelWidth,
                               w.outHeight,   w.outWidth,  w.strideY,  w.strideX, w.padTop,  w.padLeft,      w.parts};
    return builder_.create<plan::WindowOp>(op.getLoc(), op->getName().stripDialect(), reads, writes, ArrayRef(sizes));
  }

  /// Of a call on tensors of heads: [batch, tokens, heads, size].
  struct HeadsCall {
    SmallVector<Value> reads, writes;
    SmallVector<int64_t> places; // offset and strides of batch, token and head of each tensor of heads
  };
  HeadsCall placeHeads(Operation &op) {
    HeadsCall call;
    auto place = [&](const tape::StridedPlace &at, bool isOfHeads) { // lse and numbers have their own form
      if (isOfHeads)
        call.places.append({at.offset, at.strides[0], at.strides[1], at.strides[2]});
      return at.base;
    };
    auto strided = cast<tape::StridedCallOpInterface>(op);
    for (OpOperand &operand : op.getOpOperands()) {
      tape::StridedPlace at = tape::placeOperand(operand);
      call.reads.push_back(slots_.slotOf(place(at, strided.readsStrides(operand.getOperandNumber(), at.strides))));
    }
    for (OpResult result : op.getResults()) {
      tape::StridedPlace at = tape::placeResult(result);
      call.writes.push_back(slots_.slotFor(place(at, strided.writesStrides(result.getResultNumber(), at.strides))));
    }
    return call;
  }

  /// Of a kernel that is written by hand.
  Operation *createLaunch(Operation &op) {
    HeadsCall call;
    if (isa<tape::StridedCallOpInterface>(op)) {
      call = placeHeads(op);
    } else {
      for (Value operand : op.getOperands())
        call.reads.push_back(slots_.slotOf(operand));
      for (Value result : op.getResults())
        call.writes.push_back(slots_.slotFor(result));
    }
    return builder_.create<plan::LaunchOp>(op.getLoc(), tables_.kernelFor(op, call.places), call.reads, call.writes);
  }

  Operation *createAttention(Operation &op) {
    auto [reads, writes, places] = placeHeads(op);
    ArrayRef<int64_t> query = tape::shapeOf(op.getOperand(0)), key = tape::shapeOf(op.getOperand(1));
    bool drops = cast<tape::StochasticOpInterface>(op).isStochastic();
    bool padded = llvm::any_of(op.getOperands(), [](Value operand) { return tape::elementOf(operand).isInteger(32); });
    return builder_.create<plan::AttentionOp>(
        op.getLoc(), reads, writes, scratchOf(op), isa<tape::AttentionGradOp>(op), op.hasAttr("nondeterministic"),
        op.getAttrOfType<BoolAttr>("causal").getValue(), padded, op.getAttrOfType<FloatAttr>("scale").getValue(), drops ? op.getAttrOfType<FloatAttr>("dropout") : FloatAttr(),
        ArrayRef<int64_t>{query[0], query[2], key[2], query[1], query[3]}, places);
  }

  /// Memory that a library call uses only while it runs; null: it needs none.
  Value scratchOf(Operation &op) {
    auto call = dyn_cast<tape::ScratchOpInterface>(op);
    SmallVector<int64_t> sizes = call ? call.getScratchSizes() : SmallVector<int64_t>();
    if (sizes.empty())
      return {};
    std::string name = (Twine(tape::layerName(op.getLoc())) + ".scratch").str();
    Value slot = tables_.createSlot("arena", name, plan::scratchType(builder_, sizes.front()), op.getLoc());
    slot.getDefiningOp<plan::SlotOp>().setSizes(sizes);
    return slot;
  }

  plan::MatmulOp createMatmul(tape::DotGeneralOp op, Value lhs, Value rhs) {
    tape::PlacedProduct product = *tape::placeProduct(op, lhs, rhs); // checked by verify-fusion-groups
    const tape::StridedMatmul &matmul = product.matmul;
    SmallVector<int64_t> batch, offsets{product.lhs.offset, product.rhs.offset, product.result.offset};
    for (const auto &dimension : matmul.batch)
      batch.append({dimension.extent, dimension.lhs, dimension.rhs, dimension.result});
    SmallVector<Value> reads{slots_.slotOf(product.lhs.base), slots_.slotOf(product.rhs.base)};
    Value result = slots_.slotFor(product.result.base);
    if (op.getAddend()) // is there already
      reads.push_back(result);
    return builder_.create<plan::MatmulOp>(
        op.getLoc(), reads, ValueRange{result},
        ArrayRef<int64_t>{matmul.m, matmul.n, matmul.k},
        ArrayRef<int64_t>{matmul.lhsRow, matmul.lhsColumn, matmul.rhsRow, matmul.rhsColumn, matmul.resultRow, matmul.resultColumn},
        batch, llvm::all_equal(offsets) && offsets[0] == 0 ? DenseI64ArrayAttr() : builder_.getDenseI64ArrayAttr(offsets),
        FlatSymbolRefAttr(), matmul.triangle.empty() ? StringAttr() : builder_.getStringAttr(matmul.triangle), /*bias=*/false,
        /*accumulate=*/op.getAddend() != nullptr);
  }

  /// What is not where the return wants it. Outputs first: they may be old values of arguments. Old values that become
  /// the new ones of others (a swap) are put aside before any argument changes.
  void copyResults(Operation *terminator) {
    SmallVector<std::tuple<Value, Value, Value>> updates; // value, from, to
    for (auto [value, target] : llvm::zip(terminator->getOperands(), slots_.targets())) {
      if (slots_.slotOf(value) == target)
        continue;
      if (llvm::is_contained(slots_.outputs(), target))
        copy(value, slots_.slotOf(value), target);
      else
        updates.push_back({value, slots_.slotOf(value), target});
    }
    for (auto &[value, from, to] : updates)
      if (llvm::is_contained(slots_.targets(), from)) {
        Value aside = tables_.createSlot("arena", tape::layerName(value.getLoc()), value.getType(), value.getLoc());
        copy(value, from, aside);
        from = aside;
      }
    for (auto &[value, from, to] : updates)
      copy(value, from, to);
  }

  void copy(Value value, Value from, Value to) {
    auto copied = builder_.create<plan::CopyOp>(value.getLoc(), ValueRange{from}, ValueRange{to});
    copied->setAttr("bytes", builder_.getI64IntegerAttr(2 * tape::totalBytes({value.getType()})));
  }

  func::FuncOp func_;
  PlanTables &tables_;
  SlotAssignment slots_;
  OpBuilder builder_;
};

struct LowerToPlan : impl::LowerToPlanBase<LowerToPlan> {
  void runOnOperation() override {
    auto functions = llvm::to_vector(getOperation().getOps<func::FuncOp>());
    PlanTables tables(getOperation());
    for (func::FuncOp func : functions)
      ProgramLowering(func, tables).lower();
    for (func::FuncOp func : functions)
      func.erase();
  }
};

} // namespace
} // namespace tapeout
