#include "ir/tape/Convolution.h"

#include "ir/tape/TapeBuilder.h"
#include "ir/tape/Window.h"

#define GET_OP_CLASSES
#include "ir/tape/Convolution.cpp.inc"

using namespace mlir;

namespace tapeout::tape {

void registerConvolutionOps(TapeDialect &dialect) {
  addOps<
#define GET_OP_LIST
#include "ir/tape/Convolution.cpp.inc"
      >(dialect);
}

namespace {
using Ints = ArrayRef<int64_t>;
using Results = SmallVectorImpl<Value>;

// Multiply-adds, counted as two; the same number for a convolution and both its gradients.
uint64_t flopsOf(const WindowSizes &w) {
  return 2 * w.batch * w.filters * w.outHeight * w.outWidth * w.channels * w.kernelHeight * w.kernelWidth;
}

// The sizes from the input's and the weight's shape; checked.
FailureOr<WindowSizes> convolutionOf(std::optional<Location> loc, Ints input, Ints weight, Ints strides, Ints padding) {
  if (input.size() != 4 || weight.size() != 4)
    return emitOptionalError(loc,
                             "convolution needs an input [batch, channels, height, width] and a weight [filters, "
                             "channels, height, width], not [",
                             input, "] and [", weight, "]");
  if (input[1] != weight[1] && input[1] % weight[1] == 0)
    return emitOptionalError(loc, "grouped convolutions are not supported: the input has ", input[1],
                             " channels, each filter ", weight[1], "; use a full convolution or split the channels");
  if (input[1] != weight[1])
    return emitOptionalError(loc, "the input has ", input[1], " channels, but the filters have ", weight[1]);
  FailureOr<WindowSizes> sizes = windowOf(loc, input, weight.drop_front(2), strides, padding);
  if (succeeded(sizes))
    sizes->filters = weight[0];
  return sizes;
}

LogicalResult checkResult(std::optional<Location> loc, const WindowSizes &w, Value gradient) {
  if (shapeOf(gradient) == Ints({w.batch, w.filters, w.outHeight, w.outWidth}))
    return success();
  return emitOptionalError(loc, "the gradient ", gradient.getType(), " is not of the convolution's result [", w.batch,
                           ", ", w.filters, ", ", w.outHeight, ", ", w.outWidth, "]");
}

WindowSizes sizesOf(Ints input, Ints weight, Ints strides, Ints padding) {
  return *convolutionOf(std::nullopt, input, weight, strides, padding); // inference has checked it
}

// The weight that a weight gradient is of.
SmallVector<int64_t> weightShape(Value input, Value gradient, Ints kernel) {
  return {shapeOf(gradient)[1], shapeOf(input)[1], kernel[0], kernel[1]};
}

Value weightGradient(OpBuilder &b, Location loc, Value input, Value gradient, Value weight, Ints strides,
                     Ints padding) {
  return b.create<ConvolutionWeightGradOp>(loc, input, gradient, shapeOf(weight).drop_front(2), strides, padding, 1, TypeAttr());
}
} // namespace

//===- convolution ----------------------------------------------------------------------------------------------------===//

LogicalResult ConvolutionOp::inferReturnTypes(MLIRContext *, std::optional<Location> loc, Adaptor adaptor,
                                              SmallVectorImpl<Type> &types) {
  auto w = convolutionOf(loc, shapeOf(adaptor.getOperand()), shapeOf(adaptor.getWeight()), adaptor.getStrides(),
                         adaptor.getPadding());
  if (failed(w))
    return failure();
  types.push_back(
      RankedTensorType::get({w->batch, w->filters, w->outHeight, w->outWidth}, elementOf(adaptor.getOperand())));
  return success();
}
WindowSizes ConvolutionOp::getWindowSizes() {
  return sizesOf(shapeOf(getOperand()), shapeOf(getWeight()), getStrides(), getPadding());
}
uint64_t ConvolutionOp::getFlops() { return flopsOf(getWindowSizes()); }
void ConvolutionOp::buildGradient(OpBuilder &b, ArrayRef<Value> dy, Results &gradients) {
  Value dx =
      b.create<ConvolutionInputGradOp>(getLoc(), dy[0], getWeight(), shapeOf(getOperand()), getStrides(), getPadding());
  gradients.assign({dx, weightGradient(b, getLoc(), getOperand(), dy[0], getWeight(), getStrides(), getPadding())});
}
void ConvolutionOp::getPlacementRules(PlacementRules &rules) {
  rules.push_back({{shard(0), kReplicate}, {shard(0)}});
  rules.push_back({{kReplicate, shard(0)}, {shard(1)}});
  rules.push_back({{shard(1), shard(1)}, {kPartialSum}});
  addLinearRule(*this, 0, rules);
  addLinearRule(*this, 1, rules);
}

//===- convolution_input_grad -----------------------------------------------------------------------------------------===//

LogicalResult ConvolutionInputGradOp::inferReturnTypes(MLIRContext *, std::optional<Location> loc, Adaptor adaptor,
                                                       SmallVectorImpl<Type> &types) {
  auto w =
      convolutionOf(loc, adaptor.getShape(), shapeOf(adaptor.getWeight()), adaptor.getStrides(), adaptor.getPadding());
  if (failed(w) || failed(checkResult(loc, *w, adaptor.getGradient())))
    return failure();
  types.push_back(RankedTensorType::get(adaptor.getShape(), elementOf(adaptor.getGradient())));
  return success();
}
WindowSizes ConvolutionInputGradOp::getWindowSizes() {
  return sizesOf(getShape(), shapeOf(getWeight()), getStrides(), getPadding());
}
uint64_t ConvolutionInputGradOp::getFlops() { return flopsOf(getWindowSizes()); }
// The op is linear in both operands: a gradient flows back through the convolution that it is the transpose of.
void ConvolutionInputGradOp::buildGradient(OpBuilder &b, ArrayRef<Value> dy, Results &gradients) {
  Value dx = b.create<ConvolutionOp>(getLoc(), dy[0], getWeight(), getStrides(), getPadding());
  gradients.assign({dx, weightGradient(b, getLoc(), dy[0], getGradient(), getWeight(), getStrides(), getPadding())});
}
void ConvolutionInputGradOp::getPlacementRules(PlacementRules &rules) {
  rules.push_back({{shard(0), kReplicate}, {shard(0)}});
  rules.push_back({{kReplicate, shard(1)}, {shard(1)}});
  rules.push_back({{shard(1), shard(0)}, {kPartialSum}});
  addLinearRule(*this, 0, rules);
  addLinearRule(*this, 1, rules);
}

//===- convolution_weight_grad ----------------------------------------------------------------------------------------===//

LogicalResult ConvolutionWeightGradOp::inferReturnTypes(MLIRContext *, std::optional<Location> loc, Adaptor adaptor,
                                                        SmallVectorImpl<Type> &types) {
  int64_t parts = adaptor.getParts();
  if (rankOf(adaptor.getOperand()) != 4 || rankOf(adaptor.getGradient()) != 4 || adaptor.getKernel().size() != 2 ||
      parts < 1)
    return emitOptionalError(loc,
                             "convolution_weight_grad needs an input and a gradient of rank 4, the kernel's height and "
                             "width, and at least one part");
  SmallVector<int64_t> shape = weightShape(adaptor.getOperand(), adaptor.getGradient(), adaptor.getKernel());
  auto w = convolutionOf(loc, shapeOf(adaptor.getOperand()), shape, adaptor.getStrides(), adaptor.getPadding());
  if (failed(w) || failed(checkResult(loc, *w, adaptor.getGradient())))
    return failure();
  if (parts > 1)
    shape.insert(shape.begin(), parts);
  Type operand = elementOf(adaptor.getOperand()), result = adaptor.getElementType().value_or(operand);
  if (result != operand && result != computeType(operand))
    return emitOptionalError(loc, "convolution_weight_grad of ", operand, " cannot give ", result);
  types.push_back(RankedTensorType::get(shape, result));
  return success();
}
WindowSizes ConvolutionWeightGradOp::getWindowSizes() {
  WindowSizes sizes =
      sizesOf(shapeOf(getOperand()), weightShape(getOperand(), getGradient(), getKernel()), getStrides(), getPadding());
  sizes.parts = getParts();
  return sizes;
}
void ConvolutionWeightGradOp::widenResult() {
  Type wide = computeType(elementOf(getOperand()));
  setElementType(wide);
  getResult().setType(RankedTensorType::get(shapeOf(getResult()), wide));
}
uint64_t ConvolutionWeightGradOp::getFlops() { return flopsOf(getWindowSizes()); }

void ConvolutionWeightGradOp::decompose(OpBuilder &b, Results &results) {
  constexpr int64_t kTasks = 16, kTaskRows = 288, kTaskFilters = 128, kPartPositions = 1024;
  WindowSizes w = getWindowSizes();
  int64_t rows = w.channels * w.kernelHeight * w.kernelWidth;
  int64_t tasks = llvm::divideCeil(rows, kTaskRows) * llvm::divideCeil(w.filters, kTaskFilters);
  int64_t parts = std::min(kTasks / tasks, w.batch * w.outHeight * w.outWidth / kPartPositions);
  if (getParts() > 1 || parts <= 1)
    return;
  auto terms = b.create<ConvolutionWeightGradOp>(getLoc(), getOperand(), getGradient(), getKernel(), getStrides(),
                                                 getPadding(), parts, TypeAttr());
  terms.widenResult();
  TapeBuilder t(b, getLoc());
  results.push_back(t.convert(t.reduce("sum", terms, {0}), elementOf(getResult())));
}
void ConvolutionWeightGradOp::getPlacementRules(PlacementRules &rules) {
  int64_t filters = getParts() > 1;
  if (getParts() == 1)
    rules.push_back({{shard(0), shard(0)}, {kPartialSum}});
  rules.push_back({{kReplicate, shard(1)}, {shard(filters)}});
  rules.push_back({{shard(1), kReplicate}, {shard(filters + 1)}});
  addLinearRule(*this, 0, rules);
  addLinearRule(*this, 1, rules);
}

} // namespace tapeout::tape
