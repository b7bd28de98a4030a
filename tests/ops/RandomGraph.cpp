#include "tests/ops/RandomGraph.h"

#include "ir/tape/Attention.h"
#include "ir/tape/Elementwise.h"
#include "ir/tape/Embedding.h"
#include "ir/tape/Normalization.h"
#include "ir/tape/Random.h"
#include "ir/tape/Shape.h"
#include "runtime/base/Philox.h"

#include <cmath>

using namespace mlir;
using namespace tapeout::tape;

namespace tapeout::ops {

namespace {
constexpr int64_t kMaxElements = 2048;
constexpr int64_t kRows = 4; // ids are below

class Choice {
public:
  explicit Choice(uint64_t seed) : random_{seed, 0} {}
  int64_t below(int64_t count) { return static_cast<int64_t>(random_.uniform(next_++) * static_cast<double>(count)); }

private:
  RandomStream random_;
  uint64_t next_ = 0;
};

class Generator {
public:
  Generator(TapeBuilder &t, ValueRange arguments, Choice &choice)
      : t_(t), choice_(choice), ids_(arguments.drop_back(2).back()), seed_(arguments.drop_back().back()),
        step_(arguments.back()), pool_(arguments.drop_back(3).begin(), arguments.drop_back(3).end()) {}

  std::vector<Value> generate() {
    int64_t steps = 5 + choice_.below(26);
    for (int64_t i = 0; i < steps; ++i)
      if (Value value = grow(pool_[choice_.below(pool_.size())]))
        pool_.push_back(value);
    std::vector<Value> results = {
        t_.reduceAll("sum", t_.reshape(pool_.back(), {int64_t(elementCount(pool_.back().getType()))}))};
    for (Value value : pool_)
      if (value.use_empty())
        results.push_back(value);
    return results;
  }

private:
  using Ints = SmallVector<int64_t>;
  template <typename Op, typename... Args> Value make(Args... args) {
    return t_.builder().create<Op>(t_.loc(), args...)->getResult(0);
  }
  Value squarePlusOne(Value x) { return t_.add(t_.mul(x, x), t_.constantLike(x, 1)); }

  // A value of x's shape, x itself if there is no other.
  Value alike(Value x) {
    SmallVector<Value> same;
    for (Value value : pool_)
      if (value.getType() == x.getType())
        same.push_back(value);
    return same[choice_.below(same.size())];
  }
  // A value that can be combined with x: of its shape, or of rank 0.
  Value partner(Value x) {
    if (choice_.below(3) > 0)
      return alike(x);
    for (Value value : pool_)
      if (rankOf(value) == 0)
        return value;
    return t_.constantLike(x, 0.75);
  }
  // [rows, last extent]
  Value matrix(Value x) {
    int64_t width = rankOf(x) == 0 ? 1 : shapeOf(x).back();
    return t_.reshape(x, {int64_t(elementCount(x.getType())) / width, width});
  }

  // A new value made from x, or null where the drawn op does not fit.
  Value grow(Value x) {
    switch (choice_.below(17)) {
    case 0: return make<TanhOp>(x);
    case 1: return make<LogisticOp>(x);
    case 2: return make<GeluOp>(x, t_.builder().getStringAttr(choice_.below(2) ? "tanh" : "none"));
    case 3: return choice_.below(2) ? make<ReluOp>(x) : t_.neg(x);
    case 4: return t_.exp(make<TanhOp>(x));
    case 5: return choice_.below(2) ? t_.log(squarePlusOne(x)) : t_.sqrt(squarePlusOne(x));
    case 6: return t_.mul(x, t_.rsqrt(squarePlusOne(alike(x))));
    case 7: return choice_.below(2) ? make<TanhOp>(t_.add(x, partner(x))) : make<TanhOp>(t_.mul(partner(x), x));
    case 8: return t_.div(t_.sub(x, partner(x)), squarePlusOne(alike(x)));
    case 9: return reduced(x);
    case 10: return broadcasted(x);
    case 11: return moved(x);
    case 12: return normalized(x);
    case 13: return product(x);
    case 14: return chosen(x);
    case 15: return looked(x);
    default: return make<DropoutOp>(x, seed_, step_, APFloat(0.25), uint64_t(choice_.below(1000)));
    }
  }

  Value reduced(Value x) {
    if (rankOf(x) == 0)
      return {};
    int64_t first = choice_.below(rankOf(x)), last = first + choice_.below(rankOf(x) - first);
    Ints dimensions = llvm::to_vector(llvm::seq<int64_t>(first, last + 1));
    return make<TanhOp>(t_.reduce("sum", x, dimensions));
  }
  Value broadcasted(Value x) {
    int64_t extent = 2 + choice_.below(3), at = choice_.below(rankOf(x) + 1);
    if (rankOf(x) >= 4 || int64_t(elementCount(x.getType())) * extent > kMaxElements)
      return {};
    Ints shape(shapeOf(x)), dimensions;
    shape.insert(shape.begin() + at, extent);
    for (int64_t d = 0; d < rankOf(x); ++d)
      dimensions.push_back(d < at ? d : d + 1);
    return t_.broadcast(x, shape, dimensions);
  }
  Value moved(Value x) {
    if (rankOf(x) == 0)
      return {};
    if (choice_.below(3) == 0)
      return make<ReshapeOp>(x, ArrayRef<int64_t>{int64_t(elementCount(x.getType()))});
    if (shapeOf(x).back() % 2 == 0 && choice_.below(2)) {
      auto halves = t_.builder().create<SplitOp>(t_.loc(), x, rankOf(x) - 1, 2);
      return make<ConcatenateOp>(ValueRange{halves.getResult(1), halves.getResult(0)}, uint64_t(rankOf(x) - 1));
    }
    Ints permutation = llvm::to_vector(llvm::seq<int64_t>(0, rankOf(x)));
    std::rotate(permutation.begin(), permutation.begin() + choice_.below(rankOf(x)), permutation.end());
    return make<TransposeOp>(x, ArrayRef<int64_t>(permutation));
  }
  Value normalized(Value x) {
    if (rankOf(x) == 0)
      return {};
    if (choice_.below(2))
      return make<SoftmaxOp>(x);
    Value row = t_.reduce("sum", matrix(x), {0});
    return make<LayerNormOp>(x, make<LogisticOp>(row), make<TanhOp>(row), APFloat(1e-2));
  }
  Value product(Value x) {
    Value a = matrix(x);
    int64_t rows = shapeOf(a)[0], width = shapeOf(a)[1];
    if (choice_.below(2) && rows < 64) { // causal attention of the matrix to itself, or of its parts
      SmallVector<Value> parts(3, a);
      if (width % 3 == 0)
        llvm::copy(t_.builder().create<SplitOp>(t_.loc(), a, 1, 3).getResults(), parts.begin());
      int64_t size = shapeOf(parts[0])[1], heads = size % 2 == 0 ? 2 : 1;
      for (Value &part : parts)
        part = t_.reshape(part, {1, rows, heads, size / heads});
      auto attention = t_.builder().create<AttentionOp>(t_.loc(), parts[0], parts[1], parts[2], Value(), seed_, step_, true,
                                                        APFloat(1 / std::sqrt(double(size))), APFloat(0.1), 7);
      return t_.reshape(attention.getResult(), {rows, size});
    }
    if (width % 2 == 0 && width < 16 && choice_.below(2)) { // products of parts, side by side
      auto halves = t_.builder().create<SplitOp>(t_.loc(), a, 1, 2);
      Value left = t_.dot(halves.getResult(0), halves.getResult(1), {}, {}, {0}, {0});
      Value right = t_.dot(halves.getResult(1), halves.getResult(1), {}, {}, {0}, {0});
      return make<TanhOp>(make<ConcatenateOp>(ValueRange{t_.transpose(left, {1, 0}), right}, uint64_t(choice_.below(2))));
    }
    Value b = matrix(alike(x));
    if (rows * rows <= kMaxElements && choice_.below(2))
      return make<TanhOp>(t_.dot(a, b, {}, {}, {1}, {1}));
    if (width * width > kMaxElements)
      return {};
    if (rows % 2 == 0 && choice_.below(2)) { // of the rows in halves, the second added to the first
      auto half = [&](Value m, int64_t begin) { return t_.slice(m, {begin, 0}, {begin + rows / 2, width}); };
      Value first = t_.dot(half(a, 0), half(b, 0), {}, {}, {0}, {0});
      Value sum = t_.dot(half(a, rows / 2), half(b, rows / 2), {}, {}, {0}, {0}, {}, {}, first);
      return make<TanhOp>(choice_.below(2) ? t_.transpose(sum, {1, 0}) : sum);
    }
    return make<TanhOp>(t_.dot(a, b, {}, {}, {0}, {0}));
  }
  Value chosen(Value x) {
    Value y = partner(x);
    switch (choice_.below(3)) {
    case 0: return t_.maximum(x, y);
    case 1: return t_.select(t_.compare("gt", x, y), x, y);
    default: return t_.mul(x, t_.convert(t_.compare("ge", x, t_.constantLike(x, 0)), elementOf(x)));
    }
  }
  Value looked(Value x) {
    Value table = matrix(x);
    return shapeOf(table)[0] < kRows || shapeOf(table)[1] * 6 > kMaxElements ? Value() : make<EmbeddingOp>(table, ids_);
  }

  TapeBuilder &t_;
  Choice &choice_;
  Value ids_, seed_, step_;
  SmallVector<Value> pool_;
};
} // namespace

TestModule makeRandomGraph(MLIRContext &context, uint64_t seed) {
  Choice choice(seed);
  Builder b(&context);
  std::vector<Type> types;
  for (int64_t n = 1 + choice.below(3); n > 0; --n) {
    SmallVector<int64_t> shape;
    for (int64_t rank = choice.below(4); rank > 0; --rank)
      shape.push_back(1 + choice.below(7));
    types.push_back(RankedTensorType::get(shape, b.getF32Type()));
  }
  types.push_back(RankedTensorType::get({2, 3}, b.getI32Type()));
  types.insert(types.end(), 2, RankedTensorType::get({}, b.getI64Type()));
  return makeFunction(context, types, [&](TapeBuilder &t, ValueRange arguments) {
    return Generator(t, arguments, choice).generate();
  });
}

std::vector<Tensor> makeRandomGraphArguments(func::FuncOp function, uint64_t seed) {
  std::vector<Tensor> arguments;
  for (auto [n, type] : llvm::enumerate(function.getArgumentTypes())) {
    Tensor argument = randomTensor(type, seed * 100 + n);
    for (double &value : argument.values) // from [-1, 1]
      if (argument.elementType.isInteger(32))
        value = std::min<double>(std::floor((value + 1) / 2 * kRows), kRows - 1);
      else if (argument.elementType.isInteger(64))
        value = std::floor((value + 1) * 1e6);
    arguments.push_back(argument);
  }
  return arguments;
}

} // namespace tapeout::ops
