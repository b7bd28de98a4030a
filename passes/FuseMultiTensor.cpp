// tape-fuse-multi-tensor: groups that compute the same for different tensors and whose results only leave the function, as
// the optimizer updates of all parameters do, become one group: one launch instead of one per parameter. So do groups that
// read arguments only, as the casts of all parameters do. The idea is
// that of NVIDIA Apex's multi-tensor apply. Sums of parts, which end the gradients of biases and normalisations, are collected
// too, as long as their operands may live on.
#include "passes/Functions.h"
#include "passes/Passes.h"

#include "ir/tape/Fusion.h"
#include "ir/tape/Reduction.h"
#include "ir/tape/Target.h"

#include "mlir/IR/IRMapping.h"

#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/SetVector.h"

#include <map>

using namespace mlir;

namespace tapeout {
#define GEN_PASS_DEF_FUSEMULTITENSOR
#include "passes/Passes.h.inc"

namespace {

/// Each element is computed on its own, from elements at the same place and from single values.
bool isElementwise(tape::FusionOp fusion) {
  ArrayRef<int64_t> shape = tape::shapeOf(fusion.getResult(0));
  auto fits = [&](Value value) { return tape::rankOf(value) == 0 || tape::shapeOf(value) == shape; };
  for (Operation &op : fusion.getBody().front().without_terminator()) {
    bool single = llvm::all_of(op.getResults(), [](Value result) { return tape::rankOf(result) == 0; });
    bool elementwise = cast<tape::FactsOpInterface>(op).getFusionKind() == tape::FusionKind::Elementwise;
    if (!single && op.getNumOperands() == 0) // an iota depends on the shape
      return false;
    // A single value may be read from anywhere, as a hyperparameter from the config vector.
    if (!(single && isa<tape::AccessOpInterface>(op)) && !(elementwise && llvm::all_of(op.getOperands(), fits)))
      return false;
  }
  return !shape.empty() && llvm::all_of(fusion.getResults(), [&](Value result) { return tape::shapeOf(result) == shape; });
}

/// Ready before everything else, as casts of parameters are.
bool onlyReadsArguments(tape::FusionOp fusion) {
  return llvm::all_of(fusion.getOperands(), [](Value operand) { return isa<BlockArgument>(operand); });
}

bool onlyLeaves(tape::FusionOp fusion) {
  return llvm::all_of(fusion->getUsers(), [](Operation *user) { return user->hasTrait<OpTrait::IsTerminator>(); });
}

/// Equal for groups that one kernel can compute: ops, attributes, element types, and where each operand comes from. Single
/// values must be the same ones.
std::string signatureOf(tape::FusionOp fusion) {
  std::string signature;
  llvm::raw_string_ostream out(signature);
  out << fusion->getAttr(tape::kPhaseAttr) << '\n';
  Block &body = fusion.getBody().front();
  llvm::DenseMap<Value, unsigned> numbers;
  auto describe = [&](Value value) {
    auto argument = dyn_cast<BlockArgument>(value);
    Value source = argument ? fusion.getOperand(argument.getArgNumber()) : value;
    bool tensor = tape::rankOf(value) != 0 && tape::shapeOf(value) == tape::shapeOf(fusion.getResult(0));
    out << (tensor ? " tensor " : " ") << tape::elementOf(value) << ' ';
    if (argument && !tensor)
      out << source.getAsOpaquePointer();
    else
      out << numbers.try_emplace(value, numbers.size()).first->second;
  };
  for (Operation &op : body) {
    out << op.getName().getStringRef() << op.getAttrDictionary();
    llvm::for_each(op.getOperands(), describe);
    out << " ->";
    llvm::for_each(op.getResults(), describe);
    out << '\n';
  }
  return signature;
}

/// Puts all groups into one of so many tensors, where one of them is whose place suits all.
void mergeGroups(ArrayRef<tape::FusionOp> groups, tape::FusionOp place, int64_t tensors) {
  llvm::SetVector<Value> operands;
  SmallVector<Type> resultTypes;
  SmallVector<Value> old;
  for (tape::FusionOp group : groups) {
    operands.insert(group.operand_begin(), group.operand_end());
    llvm::append_range(resultTypes, group.getResultTypes());
    llvm::append_range(old, group.getResults());
  }
  OpBuilder builder(place);
  auto phase = place->getAttrOfType<StringAttr>(tape::kPhaseAttr);
  Location loc = NameLoc::get(builder.getStringAttr(phase && phase == "optimizer" ? "optimizer" : "parameters"));
  auto merged = builder.create<tape::FusionOp>(loc, resultTypes, operands.getArrayRef(), tensors);
  if (phase)
    merged->setAttr(tape::kPhaseAttr, phase);
  Block &body = merged.getBody().emplaceBlock();
  for (Value operand : operands)
    body.addArgument(operand.getType(), loc);
  OpBuilder inside = OpBuilder::atBlockEnd(&body);
  SmallVector<Value> yielded;
  for (tape::FusionOp group : groups) {
    IRMapping mapping;
    Block &from = group.getBody().front();
    for (auto [argument, operand] : llvm::zip(from.getArguments(), group.getOperands()))
      mapping.map(argument, body.getArgument(std::distance(operands.begin(), llvm::find(operands, operand))));
    for (Operation &op : from.without_terminator())
      inside.clone(op, mapping);
    for (Value result : from.getTerminator()->getOperands())
      yielded.push_back(mapping.lookup(result));
  }
  inside.create<tape::YieldOp>(loc, yielded);
  for (auto [value, replacement] : llvm::zip(old, merged.getResults()))
    value.replaceAllUsesWith(replacement);
  for (tape::FusionOp group : groups)
    group.erase();
}

/// Nothing but sums of parts, each of an operand.
bool onlySumsParts(tape::FusionOp fusion) {
  Block &body = fusion.getBody().front();
  auto isSum = [](Operation &op) {
    auto reduce = dyn_cast<tape::ReduceOp>(op);
    return reduce && tape::sumsParts(reduce) && isa<BlockArgument>(reduce.getOperand());
  };
  return fusion.getTensors() == 1 && llvm::all_of(body.without_terminator(), isSum) &&
         fusion.getNumResults() == body.getOperations().size() - 1;
}

/// Collects sums of parts in the order of the block; the operands of each collection live until its last.
class PartSums {
public:
  void visit(tape::FusionOp fusion) {
    uint64_t bytes = tape::totalBytes(fusion.getOperandTypes());
    bool alike = groups_.empty() || groups_.back()->getAttr(tape::kPhaseAttr) == fusion->getAttr(tape::kPhaseAttr);
    if (!alike || bytes_ + bytes > kMostBytes || isReadBefore(fusion))
      merge();
    groups_.push_back(fusion);
    bytes_ += bytes;
  }
  void merge() {
    if (groups_.size() > 1)
      mergeGroups(groups_, groups_.back(), /*tensors=*/countSums());
    groups_.clear();
    bytes_ = 0;
  }

private:
  static constexpr uint64_t kMostBytes = uint64_t(64) << 20;

  bool isReadBefore(tape::FusionOp place) {
    return llvm::any_of(groups_, [&](tape::FusionOp group) {
      return llvm::any_of(group->getUsers(), [&](Operation *user) { return user->isBeforeInBlock(place); });
    });
  }
  int64_t countSums() {
    int64_t sums = 0;
    for (tape::FusionOp group : groups_)
      sums += group.getNumResults();
    return sums;
  }

  SmallVector<tape::FusionOp> groups_;
  uint64_t bytes_ = 0;
};

using Groups = llvm::MapVector<std::string, SmallVector<tape::FusionOp>, std::map<std::string, unsigned>>;

struct FuseMultiTensor : impl::FuseMultiTensorBase<FuseMultiTensor> {
  void runOnOperation() override {
    for (auto func : getOperation().getOps<func::FuncOp>()) {
      Groups leaving, entering;
      for (auto fusion : func.getBody().front().getOps<tape::FusionOp>()) {
        if (fusion.getTensors() != 1 || !isElementwise(fusion))
          continue;
        if (onlyLeaves(fusion))
          leaving[signatureOf(fusion)].push_back(fusion);
        else if (onlyReadsArguments(fusion))
          entering[signatureOf(fusion)].push_back(fusion);
      }
      // The operands of all are there at the last; the results of all are wanted from the first on.
      for (auto &[signature, groups] : leaving)
        if (groups.size() > 1)
          mergeGroups(groups, groups.back(), groups.size());
      for (auto &[signature, groups] : entering)
        if (groups.size() > 1)
          mergeGroups(groups, groups.front(), groups.size());
      if (tape::targetOf(func).columnReductionParts == 1)
        continue;
      PartSums sums;
      for (auto fusion : llvm::make_early_inc_range(func.getBody().front().getOps<tape::FusionOp>()))
        if (onlySumsParts(fusion))
          sums.visit(fusion);
      sums.merge();
    }
  }
};

} // namespace
} // namespace tapeout
