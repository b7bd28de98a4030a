// tape-lower-to-plan: values become memory slots, ops become instructions.
//
//   1. arguments become persistent slots, shared by all programs that name them alike;
//   2. every other value gets a slot, but for what products read or write in place (ir/tape/Strided.h). An updated
//      parameter or state is written in place where nothing reads the old value later; a metric has an output slot; the
//      rest is transient (arena), and an elementwise result takes over the slot of an operand that dies;
//   3. fusion groups become launches of outlined kernels (equal kernels are one), products, convolutions and
//      poolings become calls of the runtime;
//   4. what a return still needs somewhere else is copied.
#include "passes/Functions.h"
#include "passes/KernelGraph.h"
#include "passes/KernelTraffic.h"
#include "passes/Passes.h"
#include "passes/PlanTables.h"

#include "ir/plan/Plan.h"
#include "ir/tape/Fusion.h"
#include "ir/tape/MatMul.h"
#include "ir/tape/Reduction.h"
#include "ir/tape/Shape.h"
#include "ir/tape/Strided.h"

#include "mlir/Analysis/SliceAnalysis.h"

#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/SetVector.h"

using namespace mlir;

namespace tapeout {
#define GEN_PASS_DEF_LOWERTOPLAN
#include "passes/Passes.h.inc"

namespace {

/// Whether an op of a fusion for many tensors belongs to the tensor of this result: it lies behind what gives the results of
/// the tensor before, and not behind its own.
bool isOfSameTensor(Operation *op, OpResult result, tape::FusionOp fusion) {
  auto yielded = fusion.getBody().front().getTerminator()->getOperands();
  unsigned resultsOfOne = fusion.getNumResults() / fusion.getTensors();
  unsigned first = result.getResultNumber() / resultsOfOne * resultsOfOne;
  auto isBehind = [&](Value value) { return value.getDefiningOp() && value.getDefiningOp()->isBeforeInBlock(op); };
  return (first == 0 || llvm::all_of(yielded.slice(first - resultsOfOne, resultsOfOne), isBehind)) &&
         !llvm::all_of(yielded.slice(first, resultsOfOne), isBehind);
}

/// Whether a result with as many elements may be written over operand `number`: the kernel needs of it only the element it
/// is computing, or its row, which it has read before it writes there.
bool mayOverwrite(OpResult result, unsigned number) {
  auto fusion = dyn_cast<tape::FusionOp>(result.getOwner());
  if (!fusion || tape::productOf(fusion)) // writes its first result before the rest reads anything
    return false;
  Block &body = fusion.getBody().front();
  if (fusion.getTensors() > 1) // the tensors are computed in any order
    for (Operation *user : body.getArgument(number).getUsers())
      if (!isOfSameTensor(user, result, fusion))
        return false;
  llvm::DenseSet<Value> elements{body.getArgument(number)}, rows; // what depends on it, element by element and row by row
  llvm::SetVector<Operation *> dependent;
  getForwardSlice(body.getArgument(number), &dependent);
  for (Operation *op : dependent) {
    if (op == body.getTerminator())
      continue;
    bool ofElements = llvm::any_of(op->getOperands(), [&](Value operand) { return elements.contains(operand); });
    bool ofRows = llvm::any_of(op->getOperands(), [&](Value operand) { return rows.contains(operand); });
    auto reduce = dyn_cast<tape::ReduceOp>(op);
    bool elementwise = cast<tape::FactsOpInterface>(op).getFusionKind() == tape::FusionKind::Elementwise;
    if (ofElements && !elementwise && !isa<tape::ReshapeOp>(op) && !(reduce && tape::reducesRows(reduce)))
      return false;
    if (ofRows && !elementwise && !isa<tape::AccessOpInterface>(op))
      return false;
    (reduce || !ofElements ? rows : elements).insert(op->result_begin(), op->result_end());
  }
  return true;
}

class ProgramLowering {
public:
  ProgramLowering(func::FuncOp func, PlanTables &tables) : func_(func), tables_(tables), builder_(func.getContext()) {
    for (auto [i, op] : llvm::enumerate(func.getBody().front()))
      order_[&op] = i;
  }

  void lower() {
    for (unsigned i = 0; i < func_.getNumArguments(); ++i)
      slots_[func_.getArgument(i)] = tables_.persistentSlot(func_, i);
    chooseResultSlots();
    createProgram();
    Block &body = func_.getBody().front();
    for (Operation &op : body.without_terminator())
      lowerOp(op);
    copyResults(body.getTerminator());
  }

private:
  // Results that may be produced right where the return wants them.
  void chooseResultSlots() {
    Operation *terminator = func_.getBody().front().getTerminator();
    for (auto [i, value] : llvm::enumerate(terminator->getOperands())) {
      Value target;
      bool direct = isComputed(value.getDefiningOp()) && !slots_.contains(value);
      if (auto updates = dyn_cast_or_null<IntegerAttr>(func_.getResultAttr(i, tape::kUpdatesAttr))) {
        BlockArgument argument = func_.getArgument(updates.getInt());
        target = slots_[argument];
        direct = direct && canOverwrite(argument, cast<OpResult>(value));
      } else {
        StringRef name = resultAttr(func_, i, tape::kNameAttr);
        std::string slotName = (func_.getName() + "/" + (name.empty() ? "result" + std::to_string(i) : name.str())).str();
        target = tables_.createSlot("output", slotName, value.getType(), value.getLoc());
        outputs_.push_back(target);
        outputNames_.push_back(name.empty() ? builder_.getStringAttr("result" + std::to_string(i)) : builder_.getStringAttr(name));
      }
      targets_.push_back(target);
      if (direct)
        slots_[value] = target;
    }
  }

  static bool isComputed(Operation *op) { return op && (isa<tape::FusionOp>(op) || tape::isLibraryCall(op)); }

  /// Every reader of the argument's old value comes before the new one, or computes it and reads only what it overwrites.
  bool canOverwrite(Value argument, OpResult result) {
    Operation *writer = result.getOwner();
    for (OpOperand &use : argument.getUses()) {
      Operation *user = use.getOwner();
      if (isElided(user) && !canOverwrite(user->getResult(0), result))
        return false;
      if (order_[user] > order_[writer] || (user == writer && !mayOverwrite(result, use.getOperandNumber())))
        return false;
    }
    return true;
  }

  /// Results take the memory of operands that nobody needs any more.
  void chooseOverwritten(tape::FusionOp fusion) {
    llvm::DenseSet<Value> taken;
    for (Value result : fusion.getResults()) {
      if (slots_.contains(result))
        continue;
      for (OpOperand &operand : fusion->getOpOperands()) {
        Value slot = slots_.lookup(operand.get()); // none: a product reads it through its strides
        bool once = slot && llvm::count_if(fusion.getOperands(), [&](Value other) { return slots_.lookup(other) == slot; }) == 1;
        bool fits = once && tape::elementCount(operand.get().getType()) == tape::elementCount(result.getType()) &&
                    tape::elementOf(operand.get()) == tape::elementOf(result);
        if (fits && slot.getDefiningOp<plan::SlotOp>().getKind() == "arena" && lastUses_[slot] == &*fusion &&
            mayOverwrite(cast<OpResult>(result), operand.getOperandNumber()) && taken.insert(slot).second) {
          slots_[result] = slot;
          noteLastUse(result, slot);
          break;
        }
      }
    }
  }

  /// Of a value in a slot, and of what is read through it.
  void noteLastUse(Value value, Value slot) {
    for (Operation *user : value.getUsers()) {
      Operation *&last = lastUses_[slot];
      if (!last || order_[user] > order_[last])
        last = user;
      if (isElided(user)) // the same memory
        noteLastUse(user->getResult(0), slot);
    }
  }

  void createProgram() {
    SmallVector<Value> inputs;
    SmallVector<Attribute> inputNames;
    for (unsigned i : argumentsWithRole(func_, tape::kRoleInput)) {
      inputs.push_back(slots_[func_.getArgument(i)]);
      inputNames.push_back(builder_.getStringAttr(argumentAttr(func_, i, tape::kNameAttr)));
    }
    builder_.setInsertionPointToEnd(func_->getBlock());
    auto program = builder_.create<plan::ProgramOp>(func_.getLoc(), func_.getName(), inputs, outputs_,
                                                    builder_.getArrayAttr(inputNames), builder_.getArrayAttr(outputNames_));
    builder_.setInsertionPointToStart(&program.getBody().emplaceBlock());
  }

  Value slotFor(Value value) {
    Value &slot = slots_[value];
    if (!slot) {
      slot = tables_.createSlot("arena", tape::layerName(value.getLoc()), value.getType(), value.getLoc());
      noteLastUse(value, slot);
    }
    return slot;
  }

  void lowerOp(Operation &op) {
    if (isElided(&op)) {
      Value slot = slots_.lookup(op.getOperand(0));
      if (isa<tape::ReshapeOp>(op) && slot)
        slots_[op.getResult(0)] = slot;
      return;
    }
    if (auto dot = dyn_cast<tape::DotGeneralOp>(op)) {
      describe(createMatmul(dot, dot.getLhs(), dot.getRhs()), op, dot.getFlops(), dot.getBytesRead() + dot.getBytesWritten());
      return;
    }
    SmallVector<Value> reads, writes;
    for (Value operand : op.getOperands())
      reads.push_back(slots_[operand]);
    if (auto fusion = dyn_cast<tape::FusionOp>(op))
      chooseOverwritten(fusion);
    for (Value result : op.getResults())
      writes.push_back(slotFor(result));
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
    slots_[product.getResult()] = writes.front();
    plan::MatmulOp matmul = createMatmul(product, outside(product.getLhs()), outside(product.getRhs()));
    SmallVector<Value> reads(matmul.getReads());
    auto columns = builder_.getI64IntegerAttr(matmul.getSizes()[1]);
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

  plan::MatmulOp createMatmul(tape::DotGeneralOp op, Value lhs, Value rhs) {
    tape::PlacedProduct product = *tape::placeProduct(op, lhs, rhs); // checked by verify-fusion-groups
    const tape::StridedMatmul &matmul = product.matmul;
    SmallVector<int64_t> batch, offsets{product.lhs.offset, product.rhs.offset, product.result.offset};
    for (const auto &dimension : matmul.batch)
      batch.append({dimension.extent, dimension.lhs, dimension.rhs, dimension.result});
    return builder_.create<plan::MatmulOp>(
        op.getLoc(), ValueRange{slots_[product.lhs.base], slots_[product.rhs.base]}, ValueRange{slotFor(product.result.base)},
        ArrayRef<int64_t>{matmul.m, matmul.n, matmul.k},
        ArrayRef<int64_t>{matmul.lhsRow, matmul.lhsColumn, matmul.rhsRow, matmul.rhsColumn, matmul.resultRow, matmul.resultColumn},
        batch, llvm::all_equal(offsets) && offsets[0] == 0 ? DenseI64ArrayAttr() : builder_.getDenseI64ArrayAttr(offsets),
        FlatSymbolRefAttr());
  }

  /// What is not where the return wants it. Outputs first: they may be old values of arguments. Old values that become
  /// the new ones of others (a swap) are put aside before any argument changes.
  void copyResults(Operation *terminator) {
    SmallVector<std::tuple<Value, Value, Value>> updates; // value, from, to
    for (auto [value, target] : llvm::zip(terminator->getOperands(), targets_)) {
      if (slots_[value] == target)
        continue;
      if (llvm::is_contained(outputs_, target))
        copy(value, slots_[value], target);
      else
        updates.push_back({value, slots_[value], target});
    }
    for (auto &[value, from, to] : updates)
      if (llvm::is_contained(targets_, from)) {
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
  OpBuilder builder_;
  llvm::DenseMap<Operation *, unsigned> order_;
  llvm::DenseMap<Value, Value> slots_;
  llvm::DenseMap<Value, Operation *> lastUses_; // of each arena slot
  SmallVector<Value> targets_, outputs_;
  SmallVector<Attribute> outputNames_;
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
