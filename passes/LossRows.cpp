#include "passes/LossRows.h"

#include "passes/Functions.h"

#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/SetVector.h"

#include <numeric>

using namespace mlir;

namespace tapeout {

namespace {

using Kind = tape::AxisPlacement::Kind;

constexpr int64_t kAlignment = 16; // bytes, of what products read and write: they are slow at other addresses

/// The product that the loss follows from without another one in between, if it is only one.
tape::DotGeneralOp findLogits(func::FuncOp func) {
  llvm::SetVector<Value> values;
  for (StringRef name : {"loss", "loss_sum"}) // of @step and @evaluate
    if (Value loss = findResult(func, name))
      values.insert(loss);
  tape::DotGeneralOp found;
  for (size_t i = 0; i < values.size(); ++i) {
    Operation *op = values[i].getDefiningOp();
    auto product = dyn_cast_or_null<tape::DotGeneralOp>(op);
    if (product && found && product != found)
      return nullptr;
    if (product)
      found = product;
    else if (op)
      values.insert(op->operand_begin(), op->operand_end());
  }
  return found;
}

class Finder {
public:
  std::optional<LossRows> find(tape::DotGeneralOp logits) {
    ArrayRef<int64_t> shape = tape::shapeOf(logits.getResult());
    size_t outermost = llvm::find_if(shape, [](int64_t extent) { return extent > 1; }) - shape.begin();
    if (outermost + 1 >= shape.size()) // the last dimension are the classes
      return std::nullopt;
    result_.rows = shape[outermost];
    elements_ = tape::elementCount(logits.getResult().getType());
    if (!add(logits, tape::shard(outermost)))
      return std::nullopt;
    for (Operation *op = logits->getNextNode(); op; op = op->getNextNode())
      if (llvm::any_of(op->getOperands(), [&](Value operand) { return cut_.contains(operand); }) && !add(op))
        return std::nullopt;
    return collectLater() ? std::optional(std::move(result_)) : std::nullopt;
  }

private:
  /// Finds how the op runs on a part of the rows, given how what it reads is cut; the logits: given how they are to be.
  bool add(Operation *op, std::optional<tape::AxisPlacement> wanted = {}) {
    auto placeable = dyn_cast<tape::PlaceableOpInterface>(op);
    auto stochastic = dyn_cast<tape::StochasticOpInterface>(op);
    if (!placeable || (stochastic && stochastic.isStochastic())) // draws by the index among all rows
      return false;
    SmallVector<tape::PlacementRule> rules;
    placeable.getPlacementRules(rules);
    auto rule = llvm::find_if(rules, [&](const tape::PlacementRule &rule) {
      return (!wanted || rule.results.front() == *wanted) && readsParts(op, rule) && givesParts(op, rule);
    });
    if (rule == rules.end())
      return false;
    bool isProduct = isa<tape::DotGeneralOp>(op);
    for (auto [value, placement] : llvm::zip_equal(op->getOperands(), rule->operands))
      if (isProduct && !placements_.contains(value)) // reads a part of the whole
        noteAlignment(value, placement);
    for (auto [value, placement] : llvm::zip_equal(op->getResults(), rule->results)) {
      if (isProduct && !wanted) // writes a part of the whole
        noteAlignment(value, placement);
      placements_[value] = placement;
      if (wanted || (!isProduct && tape::elementCount(value.getType()) == elements_))
        cut_.insert(value);
    }
    result_.ops.insert({op, *rule});
    return true;
  }

  /// What the ops before give is there as the rule wants it; everything else is there as a whole, and so are its parts.
  bool readsParts(Operation *op, const tape::PlacementRule &rule) const {
    return llvm::all_of(llvm::zip_equal(op->getOperands(), rule.operands), [&](auto pair) {
      auto [value, placement] = pair;
      auto known = placements_.find(value);
      bool fits = known == placements_.end() ? placement.kind == Kind::Replicate || placement.kind == Kind::Shard
                                             : placement == known->second;
      return fits && (placement.kind != Kind::Shard || tape::shapeOf(value)[placement.dimension] % result_.rows == 0);
    });
  }

  /// Parts of results, or numbers that are added, but never in low precision.
  bool givesParts(Operation *op, const tape::PlacementRule &rule) const {
    return llvm::all_of(llvm::zip_equal(op->getResults(), rule.results), [&](auto pair) {
      auto [value, placement] = pair;
      return placement.kind == Kind::Shard ? tape::shapeOf(value)[placement.dimension] % result_.rows == 0
                                           : placement.kind == Kind::PartialSum && !tape::isLowPrecision(tape::elementOf(value));
    });
  }

  void noteAlignment(Value value, tape::AxisPlacement placement) {
    if (placement.kind != Kind::Shard)
      return;
    ArrayRef<int64_t> shape = tape::shapeOf(value);
    int64_t bytes = shape[placement.dimension] / result_.rows * tape::elementBytes(tape::elementOf(value));
    for (int64_t extent : shape.drop_front(placement.dimension + 1))
      bytes *= extent;
    result_.granule = std::max(result_.granule, kAlignment / std::gcd(kAlignment, bytes)); // powers of two
  }

  /// What lies between the ops and reads their results has to wait. It must not be something that they read.
  bool collectLater() {
    llvm::DenseSet<Operation *> later;
    Operation *last = result_.ops.back().first;
    for (Operation *op = result_.product(); op != last->getNextNode(); op = op->getNextNode()) {
      bool isOne = result_.ops.contains(op);
      bool waits = llvm::any_of(op->getOperands(), [&](Value operand) {
        Operation *from = operand.getDefiningOp();
        return from && (later.contains(from) || (!isOne && result_.ops.contains(from)));
      });
      if (waits && isOne)
        return false;
      if (waits && later.insert(op).second)
        result_.later.push_back(op);
    }
    return true;
  }

  LossRows result_;
  uint64_t elements_ = 0;
  llvm::DenseMap<Value, tape::AxisPlacement> placements_;
  llvm::DenseSet<Value> cut_; // as large as the logits: who reads them runs on parts
};

} // namespace

std::optional<LossRows> findLossRows(func::FuncOp func) {
  tape::DotGeneralOp logits = findLogits(func);
  return logits ? Finder().find(logits) : std::nullopt;
}

} // namespace tapeout
