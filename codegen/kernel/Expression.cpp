#include "codegen/kernel/Expression.h"

#include "ir/tape/Scalars.h"
#include "ir/tape/Shape.h"

using namespace mlir;

namespace tapeout::codegen {

KernelBuilder::Values mergeIndices(const IterationSpace &space, ArrayRef<Value> kept, ArrayRef<Value> reduced, Value lane) {
  KernelBuilder::Values indices;
  for (const Dimension &dimension : space.dimensions().drop_back()) {
    ArrayRef<Value> &from = dimension.reduced ? reduced : kept;
    indices.push_back(from.front());
    from = from.drop_front();
  }
  indices.push_back(lane);
  return indices;
}

const KernelBuilder::Values *KnownValues::find(Value value, const View &view) const {
  for (const Entry &entry : entries_)
    if (entry.value == value && entry.view.offset == view.offset && entry.view.strides == view.strides)
      return &entry.results;
  return nullptr;
}
void KnownValues::add(Value value, const View &view, KernelBuilder::Values results) {
  entries_.push_back({value, view, std::move(results)});
}

FailureOr<Expression> Expression::build(ValueRange roots, IterationSpace &space) {
  while (true) {
    Expression expression;
    for (Value root : roots) {
      bool whole = tape::elementCount(root.getType()) == space.elementCount();
      std::optional<Use> use = expression.visit(root, space.rowMajor(/*withReduced=*/whole), space);
      if (!use)
        break;
      expression.roots_.push_back(*use);
    }
    if (expression.roots_.size() == roots.size())
      return expression;
    if (!space.cut())
      return expression.failed_->emitError(
          "cannot be part of this kernel: it is neither elementwise nor a strided access");
  }
}

std::optional<Expression::Use> Expression::visit(Value value, View view, IterationSpace &space) {
  Operation *op = value.getDefiningOp();
  failed_ = op;
  if (auto access = dyn_cast_or_null<tape::AccessOpInterface>(op)) {
    std::optional<tape::StridedAccess> strided = access.getAccess();
    std::optional<View> operand = strided ? space.compose(view, tape::shapeOf(value), *strided) : std::nullopt;
    return operand ? visit(op->getOperand(0), *operand, space) : std::nullopt;
  }

  if (auto iota = dyn_cast_or_null<tape::IotaOp>(op)) { // its elements are an access, not an address
    tape::StridedAccess index{0, SmallVector<int64_t, 6>(iota.getShape().size(), 0)};
    index.strides[iota.getDimension()] = 1;
    std::optional<View> indices = space.compose(view, iota.getShape(), index);
    if (!indices)
      return std::nullopt;
    view = *indices;
  }

  unsigned result = op ? cast<OpResult>(value).getResultNumber() : 0;
  Node node{op ? op->getResult(0) : value, view, {}};
  for (auto [number, known] : llvm::enumerate(nodes_))
    if (known.value == node.value && known.view.offset == view.offset && known.view.strides == view.strides)
      return Use{static_cast<unsigned>(number), result};
  auto facts = dyn_cast_or_null<tape::FactsOpInterface>(op);
  if (facts && facts.getFusionKind() == tape::FusionKind::Reduction) {
    if (!space.isRowMajor(view, /*withReduced=*/false))
      return std::nullopt;
    node.isReduction = node.isLate = true;
  } else if (op) {
    if (facts.getFusionKind() != tape::FusionKind::Elementwise)
      return std::nullopt;
    View everywhere{0, SmallVector<int64_t, 6>(view.strides.size(), 0)};
    for (Value operand : op->getOperands()) {
      std::optional<Use> use = visit(operand, tape::rankOf(operand) == 0 ? everywhere : view, space);
      if (!use)
        return std::nullopt;
      node.operands.push_back(*use);
      node.isLate |= nodes_[use->node].isLate;
    }
  }
  nodes_.push_back(std::move(node));
  return Use{static_cast<unsigned>(nodes_.size() - 1), result};
}

KernelBuilder::Values Expression::emitNode(KernelBuilder &kernel, const Node &node, const NodeValues &known,
                                           ValueRange indices, Lanes lanes) const {
  if (node.isReduction)
    return {provided_.lookup(node.value)};
  Value offset = kernel.linear(node.view.offset, node.view.strides, indices);
  int64_t laneStride = node.view.strides.back();
  if (auto argument = dyn_cast<BlockArgument>(node.value))
    return {kernel.load(pointers_[argument.getArgNumber()], tape::elementOf(argument), offset, laneStride, lanes,
                        evennessOf(node.view, lanes.count))};

  if (isa<tape::IotaOp>(node.value.getDefiningOp()))
    return {kernel.convertIndex(kernel.sequence(offset, laneStride, lanes.count), tape::elementOf(node.value))};

  KernelBuilder::Values operands, results;
  for (Use operand : node.operands)
    operands.push_back(known[operand.node][operand.result]);
  // LLVM drops it where the body has no use for it.
  Value index = kernel.convertIndex(kernel.sequence(offset, laneStride, lanes.count), kernel.builder().getI64Type());
  auto op = cast<tape::ScalarBodyOpInterface>(node.value.getDefiningOp());
  tape::buildElement(op, kernel.builder(), kernel.loc(), operands, index, results);
  return results;
}

void Expression::emitInvariants(KernelBuilder &kernel, ArrayRef<Value> pointers, unsigned laneCount) {
  pointers_.assign(pointers.begin(), pointers.end());
  invariants_.assign(nodes_.size(), {});
  NodeValues scalars(nodes_.size());
  for (auto [number, node] : llvm::enumerate(nodes_)) {
    if (!isInvariant(node.view) || node.isLate)
      continue;
    KernelBuilder::Values indices(node.view.strides.size(), kernel.integer(0));
    scalars[number] = emitNode(kernel, node, scalars, indices, {1, 1});
    for (Value scalar : scalars[number])
      invariants_[number].push_back(kernel.splat(scalar, laneCount));
  }
}

SmallVector<Value> Expression::reductions() const {
  SmallVector<Value> result;
  for (const Node &node : nodes_)
    if (node.isReduction)
      result.push_back(node.value);
  return result;
}

SmallVector<std::pair<BlockArgument, View>> Expression::accesses() const {
  SmallVector<std::pair<BlockArgument, View>> result;
  for (const Node &node : nodes_)
    if (auto argument = dyn_cast<BlockArgument>(node.value); argument && !isInvariant(node.view))
      result.push_back({argument, node.view});
  return result;
}

std::optional<unsigned> Expression::denseDimension() const {
  for (const Node &node : nodes_)
    if (isa<BlockArgument>(node.value) && node.view.strides.back() > 1)
      if (const int64_t *dense = llvm::find(node.view.strides, 1); dense != node.view.strides.end())
        return dense - node.view.strides.begin();
  return std::nullopt;
}

KernelBuilder::Values Expression::emit(KernelBuilder &kernel, ValueRange indices, Lanes lanes, KnownValues *known) const {
  NodeValues values(invariants_);
  for (auto [number, node] : llvm::enumerate(nodes_)) {
    if (!values[number].empty())
      continue;
    if (const KernelBuilder::Values *found = known ? known->find(node.value, node.view) : nullptr) {
      values[number] = *found;
      continue;
    }
    values[number] = emitNode(kernel, node, values, indices, lanes);
    if (known)
      known->add(node.value, node.view, values[number]);
  }
  KernelBuilder::Values results;
  for (Use root : roots_)
    results.push_back(values[root.node][root.result]);
  return results;
}

} // namespace tapeout::codegen
