#include "tools/inspect/KernelModel.h"

#include "ir/tape/MatMul.h"
#include "ir/tape/Reduction.h"
#include "ir/tape/Tape.h"
#include "passes/KernelTraffic.h"

#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/SetVector.h"

#include <algorithm>

using namespace mlir;

namespace tapeout::inspect {

std::string titleOf(Operation *op) {
  std::string title = op->getName().stripDialect().str();
  for (NamedAttribute attribute : op->getAttrDictionary())
    if (auto keyword = dyn_cast<StringAttr>(attribute.getValue()); keyword && attribute.getName() != tape::kPhaseAttr)
      title += " " + keyword.str();
  return title;
}

bool isMovement(Operation &op) {
  auto facts = dyn_cast<tape::FactsOpInterface>(op);
  return facts && facts.getFusionKind() == tape::FusionKind::Injective;
}

bool isHeavy(Operation &op) {
  auto facts = dyn_cast<tape::FactsOpInterface>(op);
  return !facts || facts.getFusionKind() == tape::FusionKind::Opaque ||
         facts.getFusionKind() == tape::FusionKind::Barrier;
}

namespace {

bool isConstant(Operation &op) { return op.hasTrait<OpTrait::ConstantLike>(); }

/// The loop that runs the kernel, in the words of codegen/cpu/Schedules.h.
std::string kindOf(Block &body) {
  bool computes = false;
  for (Operation &op : body.without_terminator()) {
    if (tape::isLibraryCall(&op))
      return "product";
    if (isHeavy(op))
      return "row movement";
    if (auto reduce = dyn_cast<tape::ReduceOp>(op))
      return tape::reducesRows(reduce) ? "row" : "column";
    computes |= !isConstant(op) && !isMovement(op);
  }
  return computes ? "elementwise" : "copy";
}

/// The parts that `op` reads, directly or behind what is no part.
void collectProducers(Operation &op, const llvm::DenseMap<Value, size_t> &partOf, llvm::SetVector<size_t> &producers) {
  for (Value operand : op.getOperands()) {
    if (auto part = partOf.find(operand); part != partOf.end())
      producers.insert(part->second);
    else if (Operation *producer = operand.getDefiningOp())
      collectProducers(*producer, partOf, producers);
  }
}

/// Appends the ops of `body`, which read the parts that are there already as the values in `partOf`.
void addParts(Node &node, Block &body, llvm::DenseMap<Value, size_t> partOf = {}) {
  for (Operation &op : body.without_terminator()) {
    if (isConstant(op) || (node.kernel != "copy" && isMovement(op)))
      continue;
    llvm::SetVector<size_t> producers;
    collectProducers(op, partOf, producers);
    for (size_t producer : producers)
      node.partEdges.emplace_back(producer, node.parts.size());
    for (Value result : op.getResults())
      partOf[result] = node.parts.size();
    node.parts.push_back(titleOf(&op));
    node.heavy |= isHeavy(op);
  }
}

} // namespace

void describeKernel(Node &node, Block &body, uint64_t tensors) {
  node.kind = NodeKind::Kernel;
  node.kernel = kindOf(body);
  node.bytes = bytesMoved(body);
  node.bytesSaved = std::max(node.bytes, bytesMovedAlone(body)) - node.bytes; // a copy has no op of its own
  addParts(node, body);
  node.tensors = tensors;
  node.parts.resize(node.parts.size() / tensors);
  std::erase_if(node.partEdges, [&](const auto &edge) { return edge.second >= node.parts.size(); });
}

void describeEpilogue(Node &node, Block &body, uint64_t operandBytes) {
  Value product = body.getArgument(0);
  node.kind = NodeKind::Kernel;
  node.kernel = "product";
  node.parts = {node.title};
  addParts(node, body, {{product, 0}});
  uint64_t alone = operandBytes + tape::totalBytes({product.getType()}) + bytesMovedAlone(body);
  node.bytesSaved = std::max(node.bytes, alone) - node.bytes;
}

} // namespace tapeout::inspect
