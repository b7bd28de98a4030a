#include "ir/tape/Pooling.h"

#include "ir/tape/TapeBuilder.h"
#include "ir/tape/Window.h"

#define GET_OP_CLASSES
#include "ir/tape/Pooling.cpp.inc"

using namespace mlir;

namespace tapeout::tape {

void registerPoolingOps(TapeDialect &dialect) {
  addOps<
#define GET_OP_LIST
#include "ir/tape/Pooling.cpp.inc"
      >(dialect);
}

FailureOr<WindowSizes> windowOf(std::optional<Location> loc, ArrayRef<int64_t> input, ArrayRef<int64_t> kernel,
                                ArrayRef<int64_t> strides, ArrayRef<int64_t> padding) {
  constexpr int64_t kMaxExtent = int64_t(1) << 24; // of the runtime, too; keeps every product here below 2^63
  auto within = [&](ArrayRef<int64_t> values, int64_t least) {
    return llvm::all_of(values, [&](int64_t value) { return value >= least && value <= kMaxExtent; });
  };
  if (input.size() != 4 || kernel.size() != 2 || strides.size() != 2 || padding.size() != 4 || !within(input, 1) ||
      !within(kernel, 1) || !within(strides, 1) || !within(padding, 0))
    return emitOptionalError(
        loc, "a window needs an input [batch, channels, height, width], two extents and two strides from 1 "
             "on, and four paddings (top, bottom, left, right) from 0 on");
  for (int64_t side = 0; side < 4; ++side)
    if (padding[side] >= kernel[side / 2])
      return emitOptionalError(loc, "a padding of ", padding[side], " is as large as the window of ", kernel[side / 2],
                               ", so that some windows would see nothing else; use less padding");
  WindowSizes w{input[0], input[1], 1,          input[2],   input[3],   kernel[0],  kernel[1],
                0,        0,        strides[0], strides[1], padding[0], padding[2], 1};
  int64_t height = w.height + padding[0] + padding[1], width = w.width + padding[2] + padding[3];
  if (height < w.kernelHeight || width < w.kernelWidth)
    return emitOptionalError(loc, "a window of ", w.kernelHeight, " x ", w.kernelWidth, " does not fit in planes of ",
                             w.height, " x ", w.width, " with their padding");
  w.outHeight = (height - w.kernelHeight) / w.strideY + 1;
  w.outWidth = (width - w.kernelWidth) / w.strideX + 1;
  return w;
}

namespace {
using Ints = ArrayRef<int64_t>;
using Results = SmallVectorImpl<Value>;

LogicalResult inferPooled(std::optional<Location> loc, Value operand, Ints window, Ints strides, Ints padding,
                          Type element, SmallVectorImpl<Type> &types) {
  auto w = windowOf(loc, shapeOf(operand), window, strides, padding);
  if (failed(w))
    return failure();
  types.push_back(RankedTensorType::get({w->batch, w->channels, w->outHeight, w->outWidth}, element));
  return success();
}

LogicalResult inferGradient(std::optional<Location> loc, Value gradient, Ints shape, Ints window, Ints strides,
                            Ints padding, SmallVectorImpl<Type> &types) {
  auto w = windowOf(loc, shape, window, strides, padding);
  if (failed(w))
    return failure();
  if (shapeOf(gradient) != Ints({w->batch, w->channels, w->outHeight, w->outWidth}))
    return emitOptionalError(loc, "the gradient ", gradient.getType(), " is not of the pooling's result");
  types.push_back(RankedTensorType::get(shape, elementOf(gradient)));
  return success();
}

uint64_t flopsOf(const WindowSizes &w) {
  return uint64_t(w.batch) * w.channels * w.outHeight * w.outWidth * w.kernelHeight * w.kernelWidth;
}

// One window is the whole plane.
bool isGlobal(const WindowSizes &w) {
  return w.kernelHeight == w.height && w.kernelWidth == w.width && w.padTop == 0 && w.padLeft == 0 &&
         w.outHeight == 1 && w.outWidth == 1;
}

// Planes are independent.
void addPlaneRules(Operation *op, PlacementRules &rules) {
  addUniformRule(op, shard(0), rules);
  addUniformRule(op, shard(1), rules);
}
} // namespace

LogicalResult MaxPoolOp::inferReturnTypes(MLIRContext *context, std::optional<Location> loc, Adaptor adaptor,
                                          SmallVectorImpl<Type> &types) {
  for (Type element : {elementOf(adaptor.getOperand()), Type(IntegerType::get(context, 32))})
    if (failed(inferPooled(loc, adaptor.getOperand(), adaptor.getWindow(), adaptor.getStrides(), adaptor.getPadding(),
                           element, types)))
      return failure();
  return success();
}
WindowSizes MaxPoolOp::getWindowSizes() {
  return *windowOf(std::nullopt, shapeOf(getOperand()), getWindow(), getStrides(), getPadding());
}
uint64_t MaxPoolOp::getFlops() { return flopsOf(getWindowSizes()); }
void MaxPoolOp::buildGradient(OpBuilder &b, ArrayRef<Value> dy, Results &gradients) {
  Value dx;
  if (dy[0])
    dx = b.create<MaxPoolGradOp>(getLoc(), getIndex(), dy[0], shapeOf(getOperand()), getWindow(), getStrides(),
                                 getPadding());
  gradients.push_back(dx);
}
void MaxPoolOp::getPlacementRules(PlacementRules &rules) { addPlaneRules(*this, rules); }

LogicalResult MaxPoolGradOp::inferReturnTypes(MLIRContext *, std::optional<Location> loc, Adaptor adaptor,
                                              SmallVectorImpl<Type> &types) {
  if (shapeOf(adaptor.getIndex()) != shapeOf(adaptor.getGradient()))
    return emitOptionalError(loc, "max_pool_grad needs an index for each element of the gradient");
  return inferGradient(loc, adaptor.getGradient(), adaptor.getShape(), adaptor.getWindow(), adaptor.getStrides(),
                       adaptor.getPadding(), types);
}
WindowSizes MaxPoolGradOp::getWindowSizes() {
  return *windowOf(std::nullopt, getShape(), getWindow(), getStrides(), getPadding());
}
uint64_t MaxPoolGradOp::getFlops() { return flopsOf(getWindowSizes()); }
void MaxPoolGradOp::getPlacementRules(PlacementRules &rules) {
  addPlaneRules(*this, rules);
  addLinearRule(*this, 1, rules);
}

LogicalResult AvgPoolOp::inferReturnTypes(MLIRContext *, std::optional<Location> loc, Adaptor adaptor,
                                          SmallVectorImpl<Type> &types) {
  return inferPooled(loc, adaptor.getOperand(), adaptor.getWindow(), adaptor.getStrides(), adaptor.getPadding(),
                     elementOf(adaptor.getOperand()), types);
}
WindowSizes AvgPoolOp::getWindowSizes() {
  return *windowOf(std::nullopt, shapeOf(getOperand()), getWindow(), getStrides(), getPadding());
}
uint64_t AvgPoolOp::getFlops() { return flopsOf(getWindowSizes()); }
void AvgPoolOp::buildGradient(OpBuilder &b, ArrayRef<Value> dy, Results &gradients) {
  gradients.push_back(
      b.create<AvgPoolGradOp>(getLoc(), dy[0], shapeOf(getOperand()), getWindow(), getStrides(), getPadding()));
}
// A global average is a row reduction, which fuses with what is around it.
void AvgPoolOp::decompose(OpBuilder &b, Results &results) {
  WindowSizes w = getWindowSizes();
  if (!isGlobal(w))
    return;
  TapeBuilder t(b, getLoc());
  Value sum = t.mul(t.reduce("sum", getOperand(), {2, 3}), 1.0 / static_cast<double>(w.height * w.width));
  results.push_back(t.reshape(sum, shapeOf(getResult())));
}
void AvgPoolOp::getPlacementRules(PlacementRules &rules) {
  addPlaneRules(*this, rules);
  addLinearRule(*this, 0, rules);
}

LogicalResult AvgPoolGradOp::inferReturnTypes(MLIRContext *, std::optional<Location> loc, Adaptor adaptor,
                                              SmallVectorImpl<Type> &types) {
  return inferGradient(loc, adaptor.getGradient(), adaptor.getShape(), adaptor.getWindow(), adaptor.getStrides(),
                       adaptor.getPadding(), types);
}
WindowSizes AvgPoolGradOp::getWindowSizes() {
  return *windowOf(std::nullopt, getShape(), getWindow(), getStrides(), getPadding());
}
uint64_t AvgPoolGradOp::getFlops() { return flopsOf(getWindowSizes()); }
void AvgPoolGradOp::decompose(OpBuilder &b, Results &results) {
  WindowSizes w = getWindowSizes();
  if (!isGlobal(w))
    return;
  TapeBuilder t(b, getLoc());
  Value each = t.mul(t.reshape(getGradient(), {w.batch, w.channels}), 1.0 / static_cast<double>(w.height * w.width));
  results.push_back(t.broadcast(each, getShape(), {0, 1}));
}
void AvgPoolGradOp::getPlacementRules(PlacementRules &rules) {
  addPlaneRules(*this, rules);
  addLinearRule(*this, 0, rules);
}

} // namespace tapeout::tape
