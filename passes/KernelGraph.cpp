#include "passes/KernelGraph.h"

#include "ir/tape/MatMul.h"
#include "ir/tape/Reduction.h"
#include "ir/tape/Shape.h"

#include "llvm/ADT/StringMap.h"

using namespace mlir;

namespace tapeout {

namespace {

tape::FusionKind kindOf(Operation *op) { return cast<tape::FactsOpInterface>(op).getFusionKind(); }

} // namespace

bool isView(Operation *op) {
  return op && (isa<tape::ConstantOp>(op) || (isa<tape::AccessOpInterface>(op) && kindOf(op) == tape::FusionKind::Injective));
}

bool readsMemory(Operation *op) {
  return op->hasTrait<OpTrait::IsTerminator>() || tape::isLibraryCall(op) || kindOf(op) == tape::FusionKind::Opaque;
}

namespace {

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
  return uint64_t(expected) == tape::elementCount(view->getOperand(0).getType()); // not of a part of it
}

} // namespace

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

namespace {

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
    } else if (!readsMemory(op)) {
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

} // namespace

KernelGraph buildKernelGraph(Block &block) { return GraphBuilder().build(block); }

} // namespace tapeout
