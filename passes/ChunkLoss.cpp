// tape-chunk-loss: the logits, their loss and their gradient are computed for a chunk of the rows at a time, so that only
// one chunk's logits are in memory. For each chunk in turn:
//
//   1. the product that gives the logits reads its rows where they lie, as a slice;
//   2. loss and gradient follow, each op as its placement rule says (LossRows.h);
//   3. the gradient of the rows goes where it belongs in the whole, as a part of a concatenation that products write
//      through; the gradient of the weight is added to that of the chunks before, in place and in f32.
//
// This is what Liger Kernel and torchtune call a chunked cross entropy.
#include "passes/Functions.h"
#include "passes/KernelGraph.h"
#include "passes/LossRows.h"
#include "passes/Passes.h"
#include "passes/analysis/LossChunks.h"

#include "ir/tape/Shape.h"
#include "ir/tape/TapeBuilder.h"

using namespace mlir;

namespace tapeout {
#define GEN_PASS_DEF_CHUNKLOSS
#include "passes/Passes.h.inc"

namespace {

using Kind = tape::AxisPlacement::Kind;

/// Computes one chunk after the other, right before the last op of the rows.
class Chunks {
public:
  explicit Chunks(LossRows &loss) : loss_(loss), builder_(loss.ops.back().first) {}

  void build(ArrayRef<int64_t> sizes) {
    for (int64_t size : sizes) {
      parts_.clear();
      end_ = begin_ + size;
      for (auto &[op, rule] : loss_.ops)
        runOnPart(op, rule);
      begin_ = end_;
    }
    join();
  }

private:
  void runOnPart(Operation *op, const tape::PlacementRule &rule) {
    SmallVector<Value> operands;
    for (auto [operand, placement] : llvm::zip_equal(op->getOperands(), rule.operands))
      operands.push_back(partOf(operand, placement, op));
    Operation *part = resized(op, operands, rule.results.front());
    for (auto [i, placement] : llvm::enumerate(rule.results)) {
      Value whole = op->getResult(i), value = part->getResult(i);
      SmallVector<Value> &pieces = pieces_[whole];
      auto product = dyn_cast<tape::DotGeneralOp>(part);
      if (product && placement.kind == Kind::PartialSum && !pieces.empty()) {
        product.getAddendMutable().assign(pieces.front());
        pieces.clear();
      }
      pieces.push_back(value);
      parts_[keyOf(whole, placement)] = value;
    }
  }

  /// Of a value that others read as a whole or cut along another dimension, too.
  using Key = std::pair<Value, int64_t>;
  static Key keyOf(Value value, tape::AxisPlacement placement) {
    return {value, placement.kind == Kind::Shard ? placement.dimension : -1};
  }

  /// The chunk's part of a value that an op reads.
  Value partOf(Value value, tape::AxisPlacement placement, Operation *reader) {
    if (placement.kind == Kind::Replicate)
      return value;
    Key key = keyOf(value, placement);
    if (Value part = parts_.lookup(key))
      return part;
    if (Value view = partOfView(value, placement, reader))
      return parts_[key] = view;
    SmallVector<int64_t> starts(tape::rankOf(value), 0), limits(tape::shapeOf(value));
    starts[placement.dimension] = begin_ * (limits[placement.dimension] / loss_.rows);
    limits[placement.dimension] = end_ * (limits[placement.dimension] / loss_.rows);
    Value slice = tape::TapeBuilder(builder_, value.getLoc()).slice(value, starts, limits);
    mark(slice, reader);
    return parts_[key] = slice;
  }

  /// What only moves elements is done for the part: a slice of it would move them once more.
  Value partOfView(Value value, tape::AxisPlacement placement, Operation *reader) {
    Operation *view = value.getDefiningOp();
    auto placeable = dyn_cast_or_null<tape::PlaceableOpInterface>(view);
    if (!placeable || !isView(view))
      return {};
    SmallVector<tape::PlacementRule> rules;
    placeable.getPlacementRules(rules);
    for (const tape::PlacementRule &rule : rules) {
      if (rule.results.front() != placement)
        continue;
      SmallVector<Value> operands;
      for (auto [operand, of] : llvm::zip_equal(view->getOperands(), rule.operands))
        operands.push_back(partOf(operand, of, reader));
      return resized(view, operands, placement)->getResult(0);
    }
    return {};
  }

  /// The op on other operands, whose result has fewer elements.
  Operation *resized(Operation *op, ValueRange operands, tape::AxisPlacement placement) {
    Operation *part = builder_.clone(*op);
    part->setOperands(operands);
    if (auto stating = dyn_cast<tape::ResultShapeOpInterface>(part); stating && placement.kind == Kind::Shard) {
      SmallVector<int64_t> shape(tape::shapeOf(op->getResult(0)));
      shape[placement.dimension] = (end_ - begin_) * (shape[placement.dimension] / loss_.rows);
      stating.setResultShape(shape);
    }
    SmallVector<Type> types; // never fails: it was right for all rows
    (void)cast<InferTypeOpInterface>(part).inferReturnTypes(op->getContext(), op->getLoc(), operands,
                                                            part->getDiscardableAttrDictionary(),
                                                            part->getPropertiesStorage(), {}, types);
    for (auto [result, type] : llvm::zip_equal(part->getResults(), types))
      result.setType(type);
    return part;
  }

  /// What others read is made of what the chunks gave.
  void join() {
    for (auto &[op, rule] : loss_.ops)
      for (auto [result, placement] : llvm::zip_equal(op->getResults(), rule.results)) {
        bool isRead = llvm::any_of(result.getUsers(), [&](Operation *user) { return !loss_.ops.contains(user); });
        if (isRead)
          result.replaceUsesWithIf(joined(op, pieces_[result], placement),
                                   [&](OpOperand &use) { return !loss_.ops.contains(use.getOwner()); });
      }
    Operation *end = loss_.ops.back().first->getNextNode();
    for (Operation *op : loss_.later)
      op->moveBefore(end);
    for (auto &[op, rule] : llvm::reverse(loss_.ops))
      op->erase();
  }

  Value joined(Operation *op, ArrayRef<Value> pieces, tape::AxisPlacement placement) {
    if (placement.kind == Kind::Shard) {
      Value whole = builder_.create<tape::ConcatenateOp>(op->getLoc(), pieces, placement.dimension);
      mark(whole, op);
      return whole;
    }
    Value sum = pieces.front();
    for (Value piece : pieces.drop_front()) {
      sum = tape::TapeBuilder(builder_, op->getLoc()).add(sum, piece);
      mark(sum, op);
    }
    return sum;
  }

  static void mark(Value made, Operation *like) {
    if (Attribute phase = like->getAttr(tape::kPhaseAttr))
      made.getDefiningOp()->setAttr(tape::kPhaseAttr, phase);
  }

  LossRows &loss_;
  OpBuilder builder_;
  int64_t begin_ = 0, end_ = 0;                      // the chunk's rows
  llvm::DenseMap<Key, Value> parts_;                 // of whole values, those of the chunk
  llvm::DenseMap<Value, SmallVector<Value>> pieces_; // of all chunks
};

struct ChunkLoss : impl::ChunkLossBase<ChunkLoss> {
  using ChunkLossBase::ChunkLossBase;

  void runOnOperation() override {
    for (auto func : getOperation().getOps<func::FuncOp>()) {
      int64_t made = runOn(func);
      chunked += made > 1 ? made : 0;
      if (chunks > made && func.getName() == "step")
        func.emitWarning() << "the loss is computed in " << made << (made == 1 ? " piece" : " chunks") << " instead of "
                           << int64_t(chunks) << ": "
                           << (made == 1 ? "not every op between one product and its gradient takes some rows at a time"
                                         : "there are not as many equal parts of the rows");
    }
  }

  /// Returns the number of chunks.
  int64_t runOn(func::FuncOp func) {
    std::optional<LossRows> loss = findLossRows(func);
    if (!loss)
      return 1;
    Value logits = loss->product().getResult();
    int64_t positions = tape::elementCount(logits.getType()) / tape::shapeOf(logits).back();
    std::vector<int64_t> sizes =
        chooseLossChunks({loss->rows, tape::totalBytes({logits.getType()}), positions, loss->granule}, chunks);
    if (sizes.size() < 2)
      return 1;
    Chunks(*loss).build(sizes);
    return sizes.size();
  }
};

} // namespace
} // namespace tapeout
