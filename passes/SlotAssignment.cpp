#include "passes/SlotAssignment.h"

#include "passes/Functions.h"
#include "passes/KernelGraph.h"

#include "ir/plan/Plan.h"
#include "ir/tape/MatMul.h"
#include "ir/tape/Reduction.h"
#include "ir/tape/Shape.h"

#include "mlir/Analysis/SliceAnalysis.h"

#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/SetVector.h"

using namespace mlir;

namespace tapeout {

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
  if (auto reduce = body.getTerminator()->getOperand(result.getResultNumber()).getDefiningOp<tape::ReduceOp>();
      reduce && !tape::reducesRows(reduce)) // is there when all rows have been seen
    return false;
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

/// By one instruction. A product with an addend is written by those before it, too.
bool isComputed(Operation *op) {
  auto dot = dyn_cast_or_null<tape::DotGeneralOp>(op);
  return op && (isa<tape::FusionOp>(op) || tape::isLibraryCall(op)) && !(dot && dot.getAddend());
}

} // namespace

SlotAssignment::SlotAssignment(func::FuncOp func, PlanTables &tables) : func_(func), tables_(tables) {
  for (auto [i, op] : llvm::enumerate(func.getBody().front()))
    order_[&op] = i;
  for (unsigned i = 0; i < func.getNumArguments(); ++i)
    slots_[func.getArgument(i)] = tables.persistentSlot(func, i);
  chooseResultSlots();
}

void SlotAssignment::chooseResultSlots() {
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
      std::string outputName = name.empty() ? "result" + std::to_string(i) : name.str();
      target = tables_.createSlot("output", (func_.getName() + "/" + outputName).str(), value.getType(), value.getLoc());
      outputs_.push_back(target);
      outputNames_.push_back(StringAttr::get(func_.getContext(), outputName));
    }
    targets_.push_back(target);
    if (direct)
      slots_[value] = target;
  }
}

bool SlotAssignment::canOverwrite(Value argument, OpResult result) {
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

void SlotAssignment::chooseOverwritten(tape::FusionOp fusion) {
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

void SlotAssignment::noteLastUse(Value value, Value slot) {
  for (Operation *user : value.getUsers()) {
    Operation *&last = lastUses_[slot];
    if (!last || order_[user] > order_[last])
      last = user;
    if (isElided(user)) // the same memory
      noteLastUse(user->getResult(0), slot);
  }
}

Value SlotAssignment::slotFor(Value value) {
  Value &slot = slots_[value];
  if (!slot) {
    slot = tables_.createSlot("arena", tape::layerName(value.getLoc()), value.getType(), value.getLoc());
    noteLastUse(value, slot);
  }
  return slot;
}

} // namespace tapeout
