#include "passes/KernelGraph.h"

#include "ir/tape/Fusion.h"
#include "ir/tape/MatMul.h"
#include "ir/tape/Reduction.h"
#include "ir/tape/Shape.h"
#include "ir/tape/Strided.h"
#include "ir/tape/Target.h"

#include "llvm/ADT/StringMap.h"

using namespace mlir;

namespace tapeout {

namespace {

tape::FusionKind kindOf(Operation *op) { return cast<tape::FactsOpInterface>(op).getFusionKind(); }

} // namespace

bool isView(Operation *op) {
  if (!op || !isa<tape::FactsOpInterface>(op))
    return false;
  bool isGenerated = op->getNumOperands() == 0 && kindOf(op) == tape::FusionKind::Elementwise; // constant, iota
  return isGenerated || (isa<tape::AccessOpInterface>(op) && kindOf(op) == tape::FusionKind::Injective);
}

bool readsMemory(Operation *op) {
  return op->hasTrait<OpTrait::IsTerminator>() || tape::isLibraryCall(op) || kindOf(op) == tape::FusionKind::Opaque;
}

namespace {

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

/// The value whose memory a reader of memory reads: behind reshapes, for products behind what they read through.
SmallVector<Value> memoryRead(Operation *reader) {
  if (auto dot = dyn_cast<tape::DotGeneralOp>(reader))
    if (auto product = tape::placeProduct(dot)) {
      SmallVector<Value> bases{product->lhs.base, product->rhs.base};
      for (Value &base : bases)
        while (auto reshape = base.getDefiningOp<tape::ReshapeOp>())
          base = reshape.getOperand();
      return bases;
    }
  SmallVector<Value> values;
  for (OpOperand &operand : reader->getOpOperands())
    values.push_back(tape::isLibraryCall(reader) ? tape::placeOperand(operand).base : operand.get());
  for (Value &value : values)
    while (auto reshape = value.getDefiningOp<tape::ReshapeOp>())
      value = reshape.getOperand();
  return values;
}

/// How a value follows from its source behind views.
struct TracedOperand {
  Value source; ///< null: constants only
  EdgeKind kind = EdgeKind::Same;
  std::vector<uint64_t> cuts = {}; ///< see FusionNode; {1}: anywhere
};

std::vector<uint64_t> iotaCuts(tape::IotaOp iota) {
  SmallVector<int64_t> strides(iota.getShape().size(), 0);
  strides[iota.getDimension()] = 1;
  return cutsOf(iota.getShape(), strides);
}

TracedOperand trace(Value value, const KernelGraph &graph) {
  TracedOperand traced{value};
  while (Operation *view = traced.source.getDefiningOp()) {
    if (!graph.isReadThrough(view))
      break;
    traced.source = view->getNumOperands() == 0 ? Value() : view->getOperand(0);
    if (!traced.source) {
      if (auto iota = dyn_cast<tape::IotaOp>(view); iota && iota.getShape().size() > 1)
        traced.cuts = traced.cuts.empty() ? iotaCuts(iota) : std::vector<uint64_t>{1};
      break;
    }
    if (isa<tape::ReshapeOp>(view))
      continue;
    if (traced.kind != EdgeKind::Other)
      traced.kind = repeatsRows(view) ? EdgeKind::Row : EdgeKind::Other;
    auto access = cast<tape::AccessOpInterface>(view).getAccess();
    const std::vector<uint64_t> anywhere{1};
    auto cuts = access ? cutsOf(tape::shapeOf(view->getResult(0)), access->strides) : anywhere;
    if (!cuts.empty()) // else they are elements one behind the other, as those of a chunk of rows are
      traced.cuts = traced.cuts.empty() ? cuts : anywhere; // a view of a view may cut in between
  }
  return traced;
}

class GraphBuilder {
public:
  KernelGraph build(Block &block) {
    for (Operation &call : block)
      if (tape::isLibraryCall(&call))
        for (OpResult result : call.getResults())
          for (Operation *op : tape::writtenThrough(result))
            graph_.writtenThrough.insert(op);
    for (Operation &op : block)
      if (readsMemory(&op))
        for (Value value : memoryRead(&op))
          readFromMemory_.insert(value);
    for (Operation &op : block.without_terminator())
      if (!graph_.writtenThrough.contains(&op) &&
          (!isView(&op) || (!isa<tape::ReshapeOp>(op) && readFromMemory_.contains(op.getResult(0)))))
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
      if (auto bands = tape::bandsOf(reduce); bands && tape::targetOf(op).bandsInRowKernels) {
        node.bandColumns = bands->columns;
        node.bandRows = bands->rows;
      }
    } else if (!readsMemory(op)) {
      node.kind = NodeKind::Pointwise;
      node.elements = elements;
    }
    node.phase = phaseOf(op);
    node.bytes = tape::totalBytes(op->getResultTypes());
    node.usedOutside = llvm::any_of(op->getResults(), [&](Value result) { return readFromMemory_.contains(result); });
    if (auto iota = dyn_cast<tape::IotaOp>(op))
      node.cuts = iotaCuts(iota);
    if (readsMemory(op)) {
      for (Value value : memoryRead(op))
        addEdges(node, {value, EdgeKind::Other});
      if (auto dot = dyn_cast<tape::DotGeneralOp>(op); dot && dot.getAddend())
        addEdges(node, {dot.getAddend(), EdgeKind::Same}); // becomes the result
    } else {
      for (Value operand : op->getOperands()) {
        TracedOperand traced = trace(operand, graph_);
        if (isView(op)) // moves elements: a kernel of its own
          traced.kind = EdgeKind::Other;
        addEdges(node, traced);
      }
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

  void addEdges(FusionNode &node, const TracedOperand &traced) {
    llvm::append_range(node.cuts, traced.cuts);
    Operation *producer = traced.source ? traced.source.getDefiningOp() : nullptr;
    if (!producer)
      return;
    if (auto known = graph_.indexOf.find(producer); known != graph_.indexOf.end())
      node.operands.push_back({known->second, traced.kind});
    else // written through: by the products behind it
      for (Value part : producer->getOperands())
        addEdges(node, {part, EdgeKind::Other});
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
    StringRef name = phase ? phase.getValue() : "";
    // The backward phase begins where the loss ends: the gradient of the logits may be computed with it. Kernels of f64
    // tensors have no vectors, and sum in another order.
    std::string key = (name == "loss" ? "backward" : name).str() + (touchesF64Tensor(op) ? "/f64" : "");
    return phases_.try_emplace(key, phases_.size()).first->second;
  }

  static bool touchesF64Tensor(Operation *op) {
    auto isF64Tensor = [](Value value) { return tape::elementOf(value).isF64() && tape::elementCount(value.getType()) > 1; };
    return llvm::any_of(op->getOperands(), isF64Tensor) || llvm::any_of(op->getResults(), isF64Tensor);
  }

  KernelGraph graph_;
  llvm::DenseSet<Value> readFromMemory_; // by those who read whole operands
  llvm::StringMap<uint64_t> columnKeys_;
  llvm::StringMap<uint32_t> phases_;
};

} // namespace

bool isElided(Operation *op) {
  if (isa<tape::ReshapeOp>(op) || tape::isWrittenThrough(op))
    return true;
  if (!isView(op))
    return false;
  // Read through: nobody wants it in memory.
  SmallVector<Operation *> users(op->getUsers());
  for (size_t i = 0; i < users.size(); ++i) {
    Operation *user = users[i];
    if (isView(user)) {
      llvm::append_range(users, user->getUsers());
      continue;
    }
    if (isa<tape::StridedCallOpInterface>(user)) {
      if (llvm::any_of(user->getOpOperands(), [&](OpOperand &operand) { return tape::placeOperand(operand).base == op->getResult(0); }))
        return false;
      continue;
    }
    auto fusion = dyn_cast<tape::FusionOp>(user);
    tape::DotGeneralOp dot = fusion ? tape::productOf(fusion) : dyn_cast<tape::DotGeneralOp>(user);
    if (!dot)
      return false;
    auto operandOf = [&](Value operand) { return fusion ? fusion.getOperand(cast<BlockArgument>(operand).getArgNumber()) : operand; };
    auto product = tape::placeProduct(dot, operandOf(dot.getLhs()), operandOf(dot.getRhs()));
    if (!product || product->lhs.base == op->getResult(0) || product->rhs.base == op->getResult(0))
      return false;
  }
  return true;
}

KernelGraph buildKernelGraph(Block &block) { return GraphBuilder().build(block); }

} // namespace tapeout
