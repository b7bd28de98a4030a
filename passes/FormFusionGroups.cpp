// tape-form-fusion-groups: decides which ops share a kernel (analysis/FusionGroups.h) and puts each group into a
// tape.fusion. Ops that only move elements, and constants, cost nothing inside a kernel: every group that reads through
// them gets copies of its own, and they become a kernel only where a library call or a return wants their result.
#include "passes/Functions.h"
#include "passes/Passes.h"

#include "passes/KernelGraph.h"

#include "ir/tape/Fusion.h"
#include "ir/tape/MatMul.h"
#include "ir/tape/Shape.h"

#include "mlir/IR/IRMapping.h"

#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/SetVector.h"

using namespace mlir;

namespace tapeout {
#define GEN_PASS_DEF_FORMFUSIONGROUPS
#include "passes/Passes.h.inc"

namespace {

/// Writes the block anew, group by group: a tape.fusion for each group of kernel ops, copies of library calls and of what costs nothing.
class BlockRewriter {
public:
  BlockRewriter(Block &block, const KernelGraph &graph) : block_(block), graph_(graph), builder_(block.getTerminator()) {}

  void rewrite(const std::vector<std::vector<uint32_t>> &groups) {
    SmallVector<Operation *> old;
    for (Operation &op : block_.without_terminator())
      old.push_back(&op);
    for (const std::vector<uint32_t> &group : groups) {
      SmallVector<Operation *> ops;
      for (uint32_t node : group)
        ops.push_back(graph_.ops[node]);
      if (tape::isLibraryCall(ops.front()))
        copy(ops.front());
      else
        wrap(ops);
    }
    Operation *terminator = block_.getTerminator();
    for (OpOperand &operand : terminator->getOpOperands())
      operand.set(inMemory(operand.get()));
    for (Operation *op : llvm::reverse(old))
      op->erase();
  }

private:
  /// The new value, in memory, of an old one.
  Value inMemory(Value value) {
    if (isa<BlockArgument>(value))
      return value;
    if (Value known = replacements_.lookup(value))
      return known;
    copy(value.getDefiningOp()); // reshapes, and what products read or write through
    return replacements_.at(value);
  }

  void copy(Operation *op) {
    IRMapping mapping;
    for (Value operand : op->getOperands())
      mapping.map(operand, inMemory(operand));
    Operation *copied = builder_.clone(*op, mapping);
    for (auto [old, replacement] : llvm::zip(op->getResults(), copied->getResults()))
      replacements_[old] = replacement;
  }

  void wrap(ArrayRef<Operation *> ops) {
    llvm::DenseSet<Operation *> members(ops.begin(), ops.end());
    llvm::SetVector<Value> inputs;
    llvm::SetVector<Operation *> body(ops.begin(), ops.end());
    for (Operation *op : ops)
      for (Value operand : op->getOperands())
        collect(operand, members, /*throughViews=*/!readsMemory(op), inputs, body);
    SmallVector<Value> results, operands;
    for (Operation *op : ops)
      for (Value result : op->getResults())
        if (llvm::any_of(result.getUsers(), [&](Operation *user) { return isSeenOutside(user, members); }))
          results.push_back(result);
    for (Value input : inputs)
      operands.push_back(inMemory(input));

    auto fusion = builder_.create<tape::FusionOp>(ops.back()->getLoc(), TypeRange(ValueRange(results)), operands, /*tensors=*/1);
    if (Attribute phase = ops.front()->getAttr(tape::kPhaseAttr))
      fusion->setAttr(tape::kPhaseAttr, phase);
    fillBody(fusion, inputs.getArrayRef(), body.takeVector(), results);
    for (auto [old, replacement] : llvm::zip(results, fusion.getResults()))
      replacements_[old] = replacement;
  }

  /// Inputs are what the group reads, through views; the views are copied into it.
  void collect(Value value, const llvm::DenseSet<Operation *> &members, bool throughViews, llvm::SetVector<Value> &inputs,
               llvm::SetVector<Operation *> &body) {
    Operation *op = value.getDefiningOp();
    if (op && members.contains(op))
      return;
    if (!op || !throughViews || !graph_.isReadThrough(op)) {
      inputs.insert(value);
      return;
    }
    if (body.insert(op))
      for (Value operand : op->getOperands())
        collect(operand, members, true, inputs, body);
  }

  /// Whether something outside the group needs what `user` reads.
  bool isSeenOutside(Operation *user, const llvm::DenseSet<Operation *> &members) const {
    if (members.contains(user))
      return false;
    if (!graph_.isReadThrough(user) || graph_.isNode(user))
      return true;
    return llvm::any_of(user->getUsers(), [&](Operation *next) { return isSeenOutside(next, members); });
  }

  void fillBody(tape::FusionOp fusion, ArrayRef<Value> inputs, SmallVector<Operation *> ops, ArrayRef<Value> results) {
    Block &body = fusion.getBody().emplaceBlock();
    IRMapping mapping;
    for (Value input : inputs)
      mapping.map(input, body.addArgument(input.getType(), fusion.getLoc()));
    llvm::sort(ops, [](Operation *a, Operation *b) { return a->isBeforeInBlock(b); });
    OpBuilder builder = OpBuilder::atBlockEnd(&body);
    for (Operation *op : ops)
      builder.clone(*op, mapping);
    SmallVector<Value> yielded;
    for (Value result : results)
      yielded.push_back(mapping.lookup(result));
    builder.create<tape::YieldOp>(fusion.getLoc(), yielded);
  }

  Block &block_;
  const KernelGraph &graph_;
  OpBuilder builder_;
  llvm::DenseMap<Value, Value> replacements_;
};

struct FormFusionGroups : impl::FormFusionGroupsBase<FormFusionGroups> {
  using FormFusionGroupsBase::FormFusionGroupsBase;

  void runOnOperation() override {
    for (auto func : getOperation().getOps<func::FuncOp>()) {
      Block &block = func.getBody().front();
      KernelGraph graph = buildKernelGraph(block);
      BlockRewriter(block, graph)
          .rewrite(merge ? formFusionGroupsWithinPeak(graph.nodes) : formFusionGroups(graph.nodes, {.nodes = 1}));
    }
  }
};

} // namespace
} // namespace tapeout
