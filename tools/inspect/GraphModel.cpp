#include "tools/inspect/GraphModel.h"

#include "ir/plan/Plan.h"
#include "ir/tape/Fusion.h"
#include "ir/tape/Shape.h"
#include "ir/tape/Tape.h"
#include "runtime/base/Hyperparameters.h"
#include "tools/inspect/KernelModel.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

#include "llvm/ADT/DenseMap.h"

#include <fmt/format.h>

using namespace mlir;

namespace tapeout::inspect {

namespace {

std::string typeText(Type type) {
  auto tensor = dyn_cast<RankedTensorType>(type);
  if (!tensor)
    return "";
  std::string element;
  llvm::raw_string_ostream(element) << tensor.getElementType();
  if (tensor.getRank() == 0)
    return element;
  std::string text = element == "f32" ? "[" : element + " [";
  for (auto [i, extent] : llvm::enumerate(tensor.getShape()))
    text += (i ? "," : "") + std::to_string(extent);
  return text + "]";
}

Phase phaseOf(Operation *op) {
  auto name = op->getAttrOfType<StringAttr>(tape::kPhaseAttr);
  for (Phase phase : {Phase::Loss, Phase::Backward, Phase::Optimizer})
    if (name && name.getValue() == kPhaseNames[static_cast<size_t>(phase)])
      return phase;
  return Phase::Forward;
}

class Builder {
public:
  explicit Builder(ModuleOp module) : module_(module) {}

  Graph build(func::FuncOp func) {
    graph_.title = "@" + func.getName().str();
    for (BlockArgument argument : func.getArguments())
      addFunctionArgument(func, argument);
    for (Operation &op : func.getBody().front().without_terminator())
      addTapeOp(op);
    for (auto [i, value] : llvm::enumerate(func.getBody().front().getTerminator()->getOperands()))
      addResult(func, i, graph_.nodes[producer_.lookup(value)]);
    return std::move(graph_);
  }

  Graph build(plan::ProgramOp program) {
    graph_.title = "@" + program.getName().str();
    for (auto [i, slot] : llvm::enumerate(program.getOutputs()))
      outputNames_[slot] = cast<StringAttr>(program.getOutputNames()[i]).str();
    for (Operation &op : program.getBody().front())
      if (auto instruction = dyn_cast<plan::InstructionOpInterface>(op))
        addInstruction(op, instruction);
    return std::move(graph_);
  }

private:
  static Node argumentNode(StringRef role, StringRef name, Type type) {
    Node node;
    node.kind = role == tape::kRoleInput ? NodeKind::Input : NodeKind::Argument;
    node.title = node.layer = name.str();
    node.role = role.str();
    node.type = typeText(type);
    return node;
  }

  size_t add(Node node) {
    graph_.nodes.push_back(std::move(node));
    return graph_.nodes.size() - 1;
  }

  void addFunctionArgument(func::FuncOp func, BlockArgument argument) {
    auto text = [&](StringRef attribute) {
      auto value = func.getArgAttrOfType<StringAttr>(argument.getArgNumber(), attribute);
      return value ? value.getValue() : StringRef();
    };
    producer_[argument] = add(argumentNode(text(tape::kRoleAttr), text(tape::kNameAttr), argument.getType()));
  }

  static void addResult(func::FuncOp func, unsigned index, Node &producer) {
    if (func.getResultAttr(index, tape::kGradientOfAttr))
      producer.givesGradient = true;
    else if (auto name = func.getResultAttrOfType<StringAttr>(index, tape::kNameAttr))
      producer.returns.push_back(name.str());
    else if (!func.getResultAttr(index, tape::kUpdatesAttr))
      producer.returns.push_back("result " + std::to_string(index));
  }

  void addTapeOp(Operation &op) {
    Node node;
    node.title = titleOf(&op);
    node.layer = tape::layerName(op.getLoc()).str();
    node.phase = phaseOf(&op);
    node.heavy = isHeavy(op);
    if (op.getNumResults())
      node.type = typeText(op.getResult(0).getType());
    if (auto cost = dyn_cast<tape::CostModelOpInterface>(op))
      node.flops = cost.getFlops();
    node.bytes = tape::totalBytes(op.getOperandTypes()) + tape::totalBytes(op.getResultTypes());
    if (auto fusion = dyn_cast<tape::FusionOp>(op)) {
      node.heavy = false;
      describeKernel(node, fusion.getBody().front(), fusion.getTensors());
      fusion.getBody().walk([&](tape::CostModelOpInterface cost) { node.flops += cost.getFlops(); });
    } else if (auto hyperparameter = dyn_cast<tape::HyperparameterOp>(op)) {
      uint64_t field = hyperparameter.getField();
      node.kind = NodeKind::Argument;
      node.role = "hyperparameter";
      node.title = node.layer = field < kHyperparameterCount ? std::string(kHyperparameterNames[field]) : "config";
    } else if (auto constant = dyn_cast<tape::ConstantOp>(op)) {
      node.kind = NodeKind::Constant;
      node.title = fmt::format("{:g}", constant.getValue().convertToDouble());
    } else if (isMovement(op) && op.getNumOperands() == 1) {
      node.kind = NodeKind::Movement;
    }
    bool hidesOperands = node.kind == NodeKind::Argument;
    size_t index = add(std::move(node));
    for (Value operand : op.getOperands())
      if (!hidesOperands)
        graph_.edges.push_back({producer_.lookup(operand), index, typeText(operand.getType()), {}});
    for (Value result : op.getResults())
      producer_[result] = index;
  }

  void addInstruction(Operation &op, plan::InstructionOpInterface instruction) {
    Node node;
    node.title = titleOf(&op);
    node.layer = tape::layerName(op.getLoc()).str();
    node.phase = phaseOf(&op);
    node.heavy = true;
    auto number = [&](StringRef name) -> uint64_t {
      auto value = op.getAttrOfType<IntegerAttr>(name);
      return value ? value.getInt() : 0;
    };
    node.flops = number("flops");
    node.bytes = number("bytes");
    if (auto launch = dyn_cast<plan::LaunchOp>(op)) {
      node.title = launch.getKernel().str();
      if (auto kernel = module_.lookupSymbol<plan::KernelOp>(launch.getKernel())) {
        node.heavy = false;
        describeKernel(node, kernel.getBody().front(), kernel.getTensors());
      }
    } else if (auto matmul = dyn_cast<plan::MatmulOp>(op); matmul && matmul.getEpilogue()) {
      uint64_t operandBytes = 0;
      for (Value slot : matmul.getReads().take_front(2))
        operandBytes += tape::totalBytes({slotOf(slot).getType()});
      if (auto kernel = module_.lookupSymbol<plan::KernelOp>(*matmul.getEpilogue()))
        describeEpilogue(node, kernel.getBody().front(), operandBytes);
    }
    if (!instruction.getWrites().empty())
      node.type = typeText(slotOf(instruction.getWrites().front()).getType());
    std::vector<Edge> edges;
    for (Value slot : instruction.getReads())
      edges.push_back({writerOf(slot), 0, typeText(slotOf(slot).getType()), {}});
    size_t index = add(std::move(node));
    for (Edge &edge : edges) {
      edge.to = index;
      graph_.edges.push_back(std::move(edge));
    }
    for (Value slot : instruction.getWrites()) {
      producer_[slot] = index;
      if (auto name = outputNames_.find(slot); name != outputNames_.end())
        graph_.nodes[index].returns.push_back(name->second);
    }
  }

  static plan::SlotOp slotOf(Value slot) { return slot.getDefiningOp<plan::SlotOp>(); }

  /// The last instruction that wrote the slot, or what was there before the program ran.
  size_t writerOf(Value slot) {
    auto [entry, isNew] = producer_.try_emplace(slot, 0);
    if (isNew) {
      plan::SlotOp declaration = slotOf(slot);
      entry->second = add(argumentNode(declaration.getKind(), declaration.getSym(), declaration.getType()));
    }
    return entry->second;
  }

  ModuleOp module_;
  Graph graph_;
  llvm::DenseMap<Value, size_t> producer_; // of a value, or the last writer of a slot
  llvm::DenseMap<Value, std::string> outputNames_;
};

} // namespace

Result<Graph> buildGraph(ModuleOp module, const std::string &function) {
  std::string names;
  for (Operation &op : *module.getBody())
    if (isa<func::FuncOp, plan::ProgramOp>(op))
      names += (names.empty() ? "" : ", ") + cast<SymbolOpInterface>(op).getName().str();
  auto find = [&](StringRef name) -> Operation * {
    Operation *op = module.lookupSymbol(name);
    return op && isa<func::FuncOp, plan::ProgramOp>(op) ? op : nullptr;
  };
  Operation *op = find(function.empty() ? "step" : function);
  if (!op && function.empty())
    op = find("forward");
  if (!op)
    return Status::error(ExitCode::Usage, fmt::format("there is no function '{}' after this pass; there is: {}",
                                                      function.empty() ? "step" : function, names));
  Builder builder(module);
  if (auto func = dyn_cast<func::FuncOp>(op))
    return builder.build(func);
  return builder.build(cast<plan::ProgramOp>(op));
}

} // namespace tapeout::inspect
