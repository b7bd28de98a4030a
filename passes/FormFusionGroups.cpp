// tape-form-fusion-groups: decides which ops share a kernel (analysis/FusionGroups.h) and puts each group into a
// tape.fusion. Ops that only move elements, and constants, cost nothing inside a kernel: every group that reads through
// them gets copies of its own, and they become a kernel only where a library call or a return wants their result.
#include "passes/Functions.h"
#include "passes/Passes.h"

#include "ir/tape/Fusion.h"
#include "ir/tape/MatMul.h"
#include "ir/tape/Reduction.h"
#include "ir/tape/Shape.h"
#include "passes/analysis/FusionGroups.h"

#include "mlir/IR/IRMapping.h"

#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/StringMap.h"

using namespace mlir;

namespace tapeout {
#define GEN_PASS_DEF_FORMFUSIONGROUPS
#include "passes/Passes.h.inc"

namespace {

tape::FusionKind kindOf(Operation *op) { return cast<tape::FactsOpInterface>(op).getFusionKind(); }

/// Read through by whoever uses it: a constant, or an op whose result is its operand in another order.
bool isView(Operation *op) {
  return op && (isa<tape::ConstantOp>(op) || (isa<tape::AccessOpInterface>(op) && kindOf(op) == tape::FusionKind::Injective));
}

/// Reads whole operands from memory: a library call, a kernel that is no loop over elements, or the return.
bool readsMemory(Operation *op) {
  return op->hasTrait<OpTrait::IsTerminator>() || tape::isLibraryCall(op) || kindOf(op) == tape::FusionKind::Opaque;
}

/// Whether the value behind a view must be in memory for a user of the view; a reshape is an alias of such memory.
bool isWantedInMemory(Operation *view) {
  return llvm::any_of(view->getUsers(), [](Operation *user) {
    return readsMemory(user) || (isa<tape::ReshapeOp>(user) && isWantedInMemory(user));
  });
}

/// Whether the view repeats its operand's elements along whole rows: index / (repetitions of one element).
bool repeatsRows(Operation *view) {
  auto access = cast<tape::AccessOpInterface>(view).getAccess();
  ArrayRef<int64_t> shape = tape::shapeOf(view->getResult(0));
  if (!access || access->offset != 0)
    return false;
  int64_t expected = 1;
  bool inRow = true;
  for (size_t d = shape.size(); d-- > 0;) {
    if (shape[d] == 1)
      continue;
    if (inRow && access->strides[d] == 0)
      continue;
    inRow = false;
    if (access->strides[d] != expected)
      return false;
    expected *= shape[d];
  }
  return true;
}

/// Every how many elements of `shape` the access starts anew or changes its stride.
std::vector<uint64_t> cutsOf(ArrayRef<int64_t> shape, ArrayRef<int64_t> strides) {
  std::vector<uint64_t> cuts;
  uint64_t elements = 1;
  int64_t next = 0; // the stride that would go on
  for (size_t d = shape.size(); d-- > 0; elements *= shape[d]) {
    if (shape[d] == 1)
      continue;
    if (elements > 1 && strides[d] != next)
      cuts.push_back(elements);
    next = strides[d] * shape[d];
  }
  return cuts;
}

/// How a value follows from its source behind views.
struct TracedOperand {
  Value source; ///< null: constants only
  EdgeKind kind = EdgeKind::Same;
  std::vector<uint64_t> cuts = {}; ///< see FusionNode; {1}: anywhere
};

TracedOperand trace(Value value) {
  TracedOperand traced{value};
  while (Operation *view = traced.source.getDefiningOp()) {
    if (!isView(view))
      break;
    traced.source = view->getNumOperands() == 0 ? Value() : view->getOperand(0);
    if (!traced.source)
      break;
    if (isa<tape::ReshapeOp>(view))
      continue;
    if (traced.kind != EdgeKind::Other)
      traced.kind = repeatsRows(view) ? EdgeKind::Row : EdgeKind::Other;
    auto access = cast<tape::AccessOpInterface>(view).getAccess();
    bool known = access && traced.cuts.empty(); // a view of a view may cut in between
    traced.cuts = known ? cutsOf(tape::shapeOf(view->getResult(0)), access->strides) : std::vector<uint64_t>{1};
  }
  return traced;
}

/// What becomes a kernel or a library call, in program order. Node i is ops[i].
struct KernelGraph {
  std::vector<Operation *> ops;
  std::vector<FusionNode> nodes;
  llvm::DenseMap<Operation *, uint32_t> indexOf;

  bool isNode(Operation *op) const { return indexOf.contains(op); }
};

class GraphBuilder {
public:
  KernelGraph build(Block &block) {
    for (Operation &op : block.without_terminator())
      if (!isView(&op) || (!isa<tape::ReshapeOp>(op) && isWantedInMemory(&op)))
        add(&op);
    return std::move(graph_);
  }

private:
  void add(Operation *op) {
    FusionNode node;
    uint64_t elements = tape::elementCount(op->getResult(0).getType());
    if (auto reduce = dyn_cast<tape::ReduceOp>(op)) {
      node.elements = tape::elementCount(reduce.getOperand().getType());
      bool rows = tape::reducesRows(reduce);
      node.kind = rows ? NodeKind::RowReduction : NodeKind::ColumnReduction;
      node.columns = rows ? node.elements / elements : columnKey(reduce);
      if (!rows)
        node.cuts = columnCuts(reduce);
    } else if (elements > 1 && !readsMemory(op)) {
      node.kind = NodeKind::Pointwise;
      node.elements = elements;
    }
    node.phase = phaseOf(op);
    node.usedOutside = llvm::any_of(op->getUsers(), [](Operation *user) { return user->hasTrait<OpTrait::IsTerminator>(); }) ||
                       llvm::any_of(op->getUsers(), [](Operation *user) { return isa<tape::ReshapeOp>(user) && isWantedInMemory(user); });
    if (auto iota = dyn_cast<tape::IotaOp>(op)) {
      SmallVector<int64_t> strides(iota.getShape().size(), 0);
      strides[iota.getDimension()] = 1;
      node.cuts = cutsOf(iota.getShape(), strides);
    }
    for (Value operand : op->getOperands()) {
      TracedOperand traced = readsMemory(op) ? traceMemory(operand) : trace(operand);
      if (isView(op)) // moves elements: a kernel of its own
        traced.kind = EdgeKind::Other;
      llvm::append_range(node.cuts, traced.cuts);
      if (Operation *producer = traced.source ? traced.source.getDefiningOp() : nullptr)
        node.operands.push_back({graph_.indexOf.at(producer), traced.kind});
    }
    graph_.indexOf[op] = graph_.nodes.size();
    graph_.ops.push_back(op);
    graph_.nodes.push_back(std::move(node));
  }

  /// Of [outer, reduced, inner].
  static std::vector<uint64_t> columnCuts(tape::ReduceOp reduce) {
    SmallVector<int64_t> isReduced(tape::shapeOf(reduce.getOperand()).size(), 0);
    for (int64_t dimension : reduce.getDimensions())
      isReduced[dimension] = 1;
    ArrayRef<int64_t> shape = tape::shapeOf(reduce.getOperand());
    std::vector<uint64_t> cuts;
    uint64_t elements = 1;
    for (size_t d = shape.size(); d-- > 0; elements *= shape[d])
      if (d + 1 < shape.size() && isReduced[d] != isReduced[d + 1])
        cuts.push_back(elements);
    return cuts;
  }

  /// Behind reshapes, which are aliases.
  static TracedOperand traceMemory(Value value) {
    while (auto reshape = value.getDefiningOp<tape::ReshapeOp>())
      value = reshape.getOperand();
    return {value, EdgeKind::Other};
  }

  /// Equal for column reductions over the same dimensions of the same shape.
  uint64_t columnKey(tape::ReduceOp reduce) {
    std::string key;
    llvm::raw_string_ostream out(key);
    llvm::interleaveComma(tape::shapeOf(reduce.getOperand()), out);
    out << '/';
    llvm::interleaveComma(reduce.getDimensions(), out);
    return columnKeys_.try_emplace(key, columnKeys_.size() + 1).first->second;
  }

  uint32_t phaseOf(Operation *op) {
    auto phase = op->getAttrOfType<StringAttr>(tape::kPhaseAttr);
    return phases_.try_emplace(phase ? phase.getValue() : "", phases_.size()).first->second;
  }

  KernelGraph graph_;
  llvm::StringMap<uint64_t> columnKeys_;
  llvm::StringMap<uint32_t> phases_;
};

/// Writes the block anew, group by group: a tape.fusion for each group of kernel ops, copies of library calls and reshapes.
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
        copyLibraryCall(ops.front());
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
    Value &result = replacements_[value];
    if (!result) { // only reshapes are left
      auto reshape = cast<tape::ReshapeOp>(value.getDefiningOp());
      Value operand = inMemory(reshape.getOperand());
      result = builder_.create<tape::ReshapeOp>(reshape.getLoc(), operand, reshape.getShape());
      replacements_[value] = result; // the recursion may have moved the entry
      return replacements_[value];
    }
    return result;
  }

  void copyLibraryCall(Operation *op) {
    IRMapping mapping;
    for (Value operand : op->getOperands())
      mapping.map(operand, inMemory(operand));
    Operation *copy = builder_.clone(*op, mapping);
    for (auto [old, replacement] : llvm::zip(op->getResults(), copy->getResults()))
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

    auto fusion = builder_.create<tape::FusionOp>(ops.back()->getLoc(), TypeRange(ValueRange(results)), operands);
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
    if (!op || !throughViews || !isView(op)) {
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
    if (!isView(user) || graph_.isNode(user))
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
      KernelGraph graph = GraphBuilder().build(block);
      FusionLimits limits;
      if (!merge)
        limits.nodes = 1;
      BlockRewriter(block, graph).rewrite(formFusionGroups(graph.nodes, limits));
    }
  }
};

} // namespace
} // namespace tapeout
