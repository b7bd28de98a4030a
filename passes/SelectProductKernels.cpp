// tape-select-product-kernels: the products around a GELU that kernels written by hand compute together with it
// (codegen/cuda/device/GeluProduct.cpp):
//
//   gelu(x w + b)                  ->  result, slope = gelu_product x, w, b
//   gelu_grad(x w + b, dy v)       ->  gradient, sums = scaled_product dy, v, slope
//   sum over rows of the gradient  ->  sum of the sums
//
// x w + b, which GELU and its gradient read, is never written.
#include "passes/Passes.h"

#include "ir/tape/Elementwise.h"
#include "ir/tape/MatMul.h"
#include "ir/tape/ProductKernels.h"
#include "ir/tape/Reduction.h"
#include "ir/tape/Shape.h"
#include "ir/tape/TapeBuilder.h"

using namespace mlir;

namespace tapeout {
#define GEN_PASS_DEF_SELECTPRODUCTKERNELS
#include "passes/Passes.h.inc"

namespace {

// Tiles: four for each multiprocessor of an H200. With fewer, the library divides the work better.
constexpr int64_t kLeastTiles = 4 * 132;

/// A product of rows with a weight, in the kernels' terms.
struct Product {
  tape::DotGeneralOp op;
  int64_t summed; // dimension of the weight

  Value rows() const { return op->getOperand(0); }
  Value weight() const { return op->getOperand(1); }
};

/// None where the kernels do not compute the product, or where somebody else reads it.
std::optional<Product> asProduct(Value value) {
  auto dot = value.getDefiningOp<tape::DotGeneralOp>();
  if (!dot || !dot->hasOneUse() || dot.getAddend() || !dot.getLhsBatch().empty() || dot.getTriangle() ||
      tape::elementOf(dot.getResult()) != tape::elementOf(dot.getLhs()) || dot.getRhsContract().size() != 1 ||
      dot.getLhsContract() != ArrayRef<int64_t>{tape::rankOf(dot.getLhs()) - 1})
    return std::nullopt;
  Product product{dot, dot.getRhsContract().front()};
  auto sizes = tape::productKernelSizes(product.rows(), product.weight(), product.summed);
  if (!sizes)
    return std::nullopt;
  int64_t tiles = llvm::divideCeil(sizes->rows, tape::kProductRows) * (sizes->features / tape::kProductFeatures);
  return tiles < kLeastTiles ? std::nullopt : std::optional(product);
}

/// The vector that is added to every row.
Value biasOf(Value value, int64_t rank) {
  auto broadcast = value.getDefiningOp<tape::BroadcastInDimOp>();
  bool isRow = broadcast && tape::rankOf(broadcast.getOperand()) == 1 &&
               broadcast.getBroadcastDimensions() == ArrayRef<int64_t>{rank - 1};
  return isRow ? broadcast.getOperand() : Value();
}

/// A GELU and its gradient with the products before them.
struct Match {
  tape::GeluOp gelu;
  tape::GeluGradOp gradient;
  tape::AddOp biased;
  Value bias;
  Product forward, backward;
};

std::optional<Match> match(tape::GeluOp gelu) {
  auto biased = gelu.getOperand().getDefiningOp<tape::AddOp>();
  if (!biased || !llvm::hasNItems(biased->getUses(), 2))
    return std::nullopt;
  tape::GeluGradOp gradient;
  for (Operation *user : biased->getUsers())
    if (auto found = dyn_cast<tape::GeluGradOp>(user); found && found.getOperand() == biased.getResult())
      gradient = found;
  if (!gradient || gradient.getGradient() == biased.getResult() || gradient.getApproximate() != gelu.getApproximate())
    return std::nullopt;
  std::optional<Product> forward = asProduct(biased->getOperand(0)), backward = asProduct(gradient.getGradient());
  Value bias = biasOf(biased->getOperand(1), tape::rankOf(biased.getResult()));
  if (!forward || !backward || !bias || tape::elementOf(bias) != tape::elementOf(gelu.getResult()))
    return std::nullopt;
  return Match{gelu, gradient, biased, bias, *forward, *backward};
}

void inPhaseOf(Operation *made, Operation *like) {
  if (Attribute phase = like->getAttr(tape::kPhaseAttr))
    made->setAttr(tape::kPhaseAttr, phase);
}

/// Sums of the gradient over all rows add up those of the kernel.
void sumSums(tape::ScaledProductOp kernel) {
  SmallVector<Value> gradients{kernel.getResult()};
  for (Operation *user : kernel.getResult().getUsers())
    if (auto convert = dyn_cast<tape::ConvertOp>(user);
        convert && !tape::isLowPrecision(tape::elementOf(convert.getResult())))
      gradients.push_back(convert.getResult());
  auto rows = llvm::to_vector(llvm::seq<int64_t>(0, tape::rankOf(kernel.getResult()) - 1));
  for (Value gradient : gradients)
    for (Operation *user : llvm::make_early_inc_range(gradient.getUsers()))
      if (auto sum = dyn_cast<tape::ReduceOp>(user); sum && sum.getKind() == "sum" &&
                                                     sum.getDimensions() == ArrayRef(rows) &&
                                                     !tape::isLowPrecision(tape::elementOf(sum.getResult()))) {
        sum.getOperandMutable().assign(kernel.getSums());
        sum.setDimensions({0});
      }
}

void replace(Match match) {
  OpBuilder builder(match.biased); // before GELU and its gradient
  auto forward = builder.create<tape::GeluProductOp>(match.gelu.getLoc(), match.forward.rows(), match.forward.weight(),
                                                     match.bias, match.forward.summed, match.gelu.getApproximate());
  inPhaseOf(forward, match.gelu);
  builder.setInsertionPoint(match.gradient);
  auto backward =
      builder.create<tape::ScaledProductOp>(match.gradient.getLoc(), match.backward.rows(), match.backward.weight(),
                                            forward.getSlope(), match.backward.summed);
  inPhaseOf(backward, match.gradient);
  match.gelu.replaceAllUsesWith(forward.getResult());
  match.gradient.replaceAllUsesWith(backward.getResult());
  for (Operation *op : {match.gradient.getOperation(), match.gelu.getOperation(), match.biased.getOperation(),
                        match.forward.op.getOperation(), match.backward.op.getOperation()})
    op->erase();
  sumSums(backward);
}

struct SelectProductKernels : impl::SelectProductKernelsBase<SelectProductKernels> {
  using SelectProductKernelsBase::SelectProductKernelsBase;

  void runOnOperation() override {
    if (!hopper)
      return;
    SmallVector<tape::GeluOp> gelus;
    getOperation().walk([&](tape::GeluOp op) { gelus.push_back(op); });
    for (tape::GeluOp gelu : gelus)
      if (std::optional<Match> found = match(gelu))
        replace(*found);
  }
};

} // namespace
} // namespace tapeout
