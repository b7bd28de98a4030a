// The placement rules of every sample, obeyed: two devices run the op on what they have, and what they get must be the
// result of the whole op.
#include "tests/ops/Support.h"

#include "ir/tape/Reduction.h"
#include "gtest/gtest.h"

#include <set>

using namespace mlir;
using namespace tapeout::tape;

namespace tapeout::ops {

namespace {
constexpr int64_t kDevices = 2;
using Kind = AxisPlacement::Kind;

std::vector<int64_t> wholeShape(ArrayRef<int64_t> shape, AxisPlacement placement) {
  std::vector<int64_t> whole(shape);
  if (placement.kind == Kind::Shard)
    whole[placement.dimension] *= kDevices;
  return whole;
}

// The whole value of what the devices have.
Tensor combine(ArrayRef<Tensor> parts, AxisPlacement placement) {
  Tensor whole = parts.front();
  if (placement.kind == Kind::PartialSum || placement.kind == Kind::PartialMax)
    for (auto [i, value] : llvm::enumerate(whole.values))
      value = placement.kind == Kind::PartialSum ? value + parts[1].values[i] : std::max(value, parts[1].values[i]);
  if (placement.kind != Kind::Shard)
    return whole;
  whole.shape = wholeShape(whole.shape, placement);
  size_t inner = 1;
  for (int64_t extent : ArrayRef(parts.front().shape).drop_front(placement.dimension))
    inner *= extent;
  whole.values.clear();
  for (size_t begin = 0; begin < parts.front().values.size(); begin += inner)
    for (const Tensor &part : parts)
      whole.values.insert(whole.values.end(), part.values.begin() + begin, part.values.begin() + begin + inner);
  return whole;
}

// The op of the sample's function; what it draws would depend on the index in the whole value.
Operation *opOf(func::FuncOp function) {
  Operation *op = function.getBody().front().getTerminator()->getOperand(0).getDefiningOp();
  if (auto stochastic = dyn_cast<StochasticOpInterface>(op))
    stochastic.dropRandomness();
  return op;
}

// The op on whole values.
TestModule makeWhole(Operation *op, ArrayRef<Type> arguments, const PlacementRule &rule) {
  return makeFunction(*op->getContext(), arguments, [&](TapeBuilder &t, ValueRange values) {
    Operation *whole = t.builder().clone(*op);
    whole->setOperands(values);
    for (StringRef name : {"shape", "limits"})
      if (auto extents = op->getAttrOfType<DenseI64ArrayAttr>(name))
        whole->setAttr(name, t.builder().getDenseI64ArrayAttr(wholeShape(extents, rule.results[0])));
    SmallVector<Type> types;
    EXPECT_TRUE(succeeded(cast<InferTypeOpInterface>(whole).inferReturnTypes(
        op->getContext(), op->getLoc(), values, whole->getDiscardableAttrDictionary(), whole->getPropertiesStorage(), {},
        types)));
    for (auto [result, type] : llvm::zip(whole->getResults(), types))
      result.setType(type);
    return std::vector<Value>(whole->getResults().begin(), whole->getResults().end());
  });
}

class PlacementTest : public testing::TestWithParam<size_t> {
protected:
  const Sample &sample() const { return allSamples()[GetParam()]; }
};

TEST_P(PlacementTest, DevicesTogetherGetTheWholeResult) {
  auto context = makeContext();
  TestModule test = makeFunction(*context, sample());
  Operation *op = opOf(test.function);
  auto placeable = dyn_cast<PlaceableOpInterface>(op);
  if (!placeable)
    return;
  SmallVector<PlacementRule> rules;
  placeable.getPlacementRules(rules);
  for (auto [n, rule] : llvm::enumerate(rules)) {
    SCOPED_TRACE("rule " + std::to_string(n));
    ASSERT_EQ(rule.operands.size(), op->getNumOperands());
    ASSERT_EQ(rule.results.size(), op->getNumResults());
    // What each device has of the function's arguments, and the whole.
    std::vector<std::vector<Tensor>> arguments;
    for (int64_t device = 0; device < kDevices; ++device)
      arguments.push_back(makeArguments(*context, sample().inputs, 100 * GetParam() + 10 * device + 1));
    std::vector<Tensor> whole;
    SmallVector<Type> types;
    for (auto [i, placement] : llvm::enumerate(rule.operands)) {
      ASSERT_EQ(op->getOperand(i), test.function.getArgument(i));
      if (placement.kind == Kind::Replicate)
        arguments[1][i] = arguments[0][i];
      whole.push_back(combine({arguments[0][i], arguments[1][i]}, placement));
      types.push_back(RankedTensorType::get(whole.back().shape, elementOf(op->getOperand(i))));
    }
    TestModule wholeTest = makeWhole(op, types, rule);
    ASSERT_TRUE(succeeded(wholeTest.module->verify()));
    std::vector<Tensor> expected = interpret(wholeTest.function, whole, Precision::F64);
    std::vector<std::vector<Tensor>> results;
    for (const auto &deviceArguments : arguments)
      results.push_back(interpret(test.function, deviceArguments, Precision::F64));
    ASSERT_EQ(expected.size(), rule.results.size());
    for (auto [i, placement] : llvm::enumerate(rule.results)) {
      Tensor actual = combine({results[0][i], results[1][i]}, placement);
      EXPECT_EQ(actual.shape, expected[i].shape);
      expectClose(actual.values, expected[i].values, 1e-11, "result " + std::to_string(i));
      if (placement.kind == Kind::Replicate)
        expectClose(results[1][i].values, expected[i].values, 1e-11, "replicated result " + std::to_string(i));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, PlacementTest, testing::Range<size_t>(0, allSamples().size()),
                         [](const auto &info) { return allSamples()[info.param].name; });

// No op is without rules by oversight: every tensor it makes may be cut somewhere, but for sum_of_squares_parts, whose
// elements are not those of its operands.
TEST(Placement, EveryOpOnTensorsHasARule) {
  auto context = makeContext();
  std::set<std::string> placed, seen;
  for (const Sample &sample : allSamples()) {
    TestModule test = makeFunction(*context, sample);
    Operation *op = opOf(test.function);
    auto placeable = dyn_cast<PlaceableOpInterface>(op);
    if (!placeable || rankOf(op->getResult(0)) == 0)
      continue;
    SmallVector<PlacementRule> rules;
    placeable.getPlacementRules(rules);
    if (isa<SumOfSquaresPartsOp>(op))
      continue;
    seen.insert(op->getName().getStringRef().str());
    if (!rules.empty())
      placed.insert(op->getName().getStringRef().str());
  }
  EXPECT_EQ(placed, seen);
}
} // namespace

} // namespace tapeout::ops
