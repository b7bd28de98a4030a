// tape-select-attention-kernels: gradients of attention that kernels written by hand compute, on the tensor cores of a
// Hopper GPU (codegen/cuda/device/AttentionGradient.cpp). They repeat their bits without the memory that the library
// needs for that.
#include "passes/Passes.h"

#include "ir/tape/Attention.h"
#include "ir/tape/Elementwise.h"
#include "ir/tape/Reduction.h"
#include "ir/tape/Shape.h"
#include "ir/tape/TapeBuilder.h"
#include "ir/tape/Target.h"

using namespace mlir;

namespace tapeout {
#define GEN_PASS_DEF_SELECTATTENTIONKERNELS
#include "passes/Passes.h.inc"

namespace {

/// 16 bits, every query with a key of its own, nothing dropped or padded. The kernels count rows and tiles in 32 bits.
bool hasKernels(tape::AttentionGradOp op) {
  ArrayRef<int64_t> query = tape::shapeOf(op.getQuery()), key = tape::shapeOf(op.getKey());
  constexpr int64_t kMostTokens = 1 << 20, kMostRows = 1 << 28;
  return tape::isLowPrecision(tape::elementOf(op.getQuery())) && query[3] == tape::kKernelHead && query == key &&
         !op.isStochastic() && !op.getLengths() && query[1] <= kMostTokens &&
         query[0] <= kMostRows / query[1] / query[2];
}

struct Kernels {
  tape::AttentionQueryGradientOp ofQuery;
  tape::AttentionKeyGradientsOp ofKeys;
};

Kernels createKernels(OpBuilder &b, tape::AttentionGradOp op) {
  Kernels kernels;
  kernels.ofQuery = b.create<tape::AttentionQueryGradientOp>(
      op.getLoc(), op.getQuery(), op.getKey(), op.getValue(), op.getOutput(), op.getLse(), op.getGradient(),
      op.getCausalAttr(), op.getScaleAttr(), b.getUnitAttr(), DenseI64ArrayAttr());
  kernels.ofKeys = b.create<tape::AttentionKeyGradientsOp>(
      op.getLoc(), op.getQuery(), op.getKey(), op.getValue(), op.getGradient(), kernels.ofQuery.getRows(),
      op.getCausalAttr(), op.getScaleAttr(), b.getUnitAttr(), DenseI64ArrayAttr());
  for (Operation *kernel : {kernels.ofQuery.getOperation(), kernels.ofKeys.getOperation()})
    if (Attribute phase = op->getAttr(tape::kPhaseAttr))
      kernel->setAttr(tape::kPhaseAttr, phase);
  op.replaceAllUsesWith(ValueRange{kernels.ofQuery.getQueryGradient(), kernels.ofKeys.getKeyGradient(),
                                   kernels.ofKeys.getValueGradient()});
  op.erase();
  return kernels;
}

/// Rebuilds a kernel's sums of columns as `value` is built of its gradients: [batch, tiles, ...] for [batch, tokens,
/// ...]. Null where `value` is something else.
class ColumnSums {
public:
  explicit ColumnSums(OpBuilder &builder) : b_(builder) {}

  Value of(Value value) {
    if (auto ofQuery = value.getDefiningOp<tape::AttentionQueryGradientOp>())
      return value == ofQuery.getQueryGradient() && ofQuery.getSums() ? ofQuery.getColumnSums().front() : Value();
    if (auto ofKeys = value.getDefiningOp<tape::AttentionKeyGradientsOp>()) {
      unsigned number = cast<OpResult>(value).getResultNumber();
      return ofKeys.getSums() && number < 2 ? ofKeys.getColumnSums()[number] : Value();
    }
    Operation *op = value.getDefiningOp();
    if (auto convert = dyn_cast_or_null<tape::ConvertOp>(op))
      return of(convert.getOperand()); // sums are f32
    if (auto reshape = dyn_cast_or_null<tape::ReshapeOp>(op)) {
      ArrayRef<int64_t> from = tape::shapeOf(reshape.getOperand()), to = tape::shapeOf(value);
      if (from.size() < 2 || to.size() < 2 || from.take_front(2) != to.take_front(2))
        return {};
      Value sums = of(reshape.getOperand());
      return sums ? inPhaseOf(op, tape::TapeBuilder(b_, op->getLoc()).reshape(sums, shapeLike(sums, to))) : Value();
    }
    if (auto concatenate = dyn_cast_or_null<tape::ConcatenateOp>(op)) {
      if (concatenate.getDimension() < 2)
        return {};
      SmallVector<Value> parts;
      for (Value part : concatenate->getOperands())
        parts.push_back(of(part));
      if (llvm::is_contained(parts, Value()))
        return {};
      return inPhaseOf(op, b_.create<tape::ConcatenateOp>(op->getLoc(), parts, concatenate.getDimension()));
    }
    return {};
  }

private:
  static Value inPhaseOf(Operation *op, Value value) {
    if (Attribute phase = op->getAttr(tape::kPhaseAttr))
      value.getDefiningOp()->setAttr(tape::kPhaseAttr, phase);
    return value;
  }
  static SmallVector<int64_t> shapeLike(Value sums, ArrayRef<int64_t> shape) {
    SmallVector<int64_t> result(shape);
    result[1] = tape::shapeOf(sums)[1];
    return result;
  }

  OpBuilder &b_;
};

/// Sums over batch and tokens of what is made of the gradients add up the kernels' sums of columns instead: gradients
/// of biases then read no gradient again.
void sumColumnSums(ModuleOp module) {
  SmallVector<tape::ReduceOp> reductions;
  module.walk([&](tape::ReduceOp op) {
    bool overRows = op.getKind() == "sum" && op.getDimensions() == ArrayRef<int64_t>{0, 1};
    if (overRows && !tape::isLowPrecision(tape::elementOf(op.getResult()))) // sums are f32
      reductions.push_back(op);
  });
  for (tape::ReduceOp reduce : reductions) {
    OpBuilder builder(reduce);
    if (Value sums = ColumnSums(builder).of(reduce.getOperand()))
      reduce.getOperandMutable().assign(sums); // the type of the result does not tell how many rows there were
  }
}

/// Kernels whose sums nobody reads, or only what has come to nothing, do without them.
template <typename Op> void dropUnusedSums(Op op) {
  for (Value sums : op.getColumnSums())
    for (Operation *user : llvm::make_early_inc_range(sums.getUsers()))
      if (user->use_empty())
        user->erase();
  if (!llvm::all_of(op.getColumnSums(), [](Value sums) { return sums.use_empty(); }))
    return;
  OpBuilder builder(op);
  auto attributes = llvm::to_vector(op->getAttrs());
  llvm::erase_if(attributes, [](NamedAttribute attribute) { return attribute.getName() == "sums"; });
  unsigned kept = op->getNumResults() - op.getColumnSums().size();
  auto smaller =
      builder.create<Op>(op.getLoc(), TypeRange(op->getResultTypes()).take_front(kept), op->getOperands(), attributes);
  for (unsigned i = 0; i < kept; ++i)
    op->getResult(i).replaceAllUsesWith(smaller->getResult(i));
  op.erase();
}

struct SelectAttentionKernels : impl::SelectAttentionKernelsBase<SelectAttentionKernels> {
  using SelectAttentionKernelsBase::SelectAttentionKernelsBase;

  void runOnOperation() override {
    if (!hopper || tape::targetOf(getOperation()).attentionHeadSize == 0)
      return;
    SmallVector<tape::AttentionGradOp> gradients;
    getOperation().walk([&](tape::AttentionGradOp op) {
      if (hasKernels(op))
        gradients.push_back(op);
    });
    SmallVector<Kernels> kernels;
    for (tape::AttentionGradOp op : gradients) {
      OpBuilder builder(op);
      kernels.push_back(createKernels(builder, op));
    }
    sumColumnSums(getOperation());
    for (Kernels &pair : llvm::reverse(kernels)) {
      dropUnusedSums(pair.ofKeys);
      dropUnusedSums(pair.ofQuery);
    }
  }
};

} // namespace
} // namespace tapeout
