#include "ir/tape/MatMul.h"

#include "tests/ops/Sample.h"

using namespace mlir;
using namespace tapeout::tape;

namespace tapeout::ops {

namespace {
using Ints = std::vector<int64_t>;

// The sum over all index tuples, one loop per dimension: a name for each dimension of each operand, result by name.
// A letter in lhs and rhs but not in result is contracted, as in an einsum.
Arrays einsum(const std::string &lhs, const std::string &rhs, const std::string &result, const Ints &lhsShape,
              const Ints &rhsShape, const Arrays &x) {
  std::string letters = result;
  for (char letter : lhs)
    if (letters.find(letter) == std::string::npos)
      letters += letter;
  auto extentOf = [&](char letter) {
    size_t in = lhs.find(letter);
    return in != std::string::npos ? lhsShape[in] : rhsShape[rhs.find(letter)];
  };
  int64_t results = 1, total = 1;
  for (size_t i = 0; i < letters.size(); ++i) {
    total *= extentOf(letters[i]);
    if (i < result.size())
      results *= extentOf(letters[i]);
  }
  Arrays out(1, std::vector<double>(results));
  for (int64_t position = 0; position < total; ++position) {
    Ints index(letters.size());
    int64_t rest = position;
    for (size_t i = letters.size(); i-- > 0; rest /= extentOf(letters[i]))
      index[i] = rest % extentOf(letters[i]);
    auto offset = [&](const std::string &operand) {
      int64_t linear = 0;
      for (char letter : operand)
        linear = linear * extentOf(letter) + index[letters.find(letter)];
      return linear;
    };
    out[0][offset(result)] += x[0][offset(lhs)] * x[1][offset(rhs)];
  }
  return out;
}

struct Dimensions {
  Ints lhsBatch, rhsBatch, lhsContract, rhsContract;
};
Sample dot(std::string name, Ints lhsShape, Ints rhsShape, Dimensions d, std::string lhs, std::string rhs,
           std::string result) {
  return {"dot_general_" + name, {floats(lhsShape), floats(rhsShape)},
          [=](TapeBuilder &t, ValueRange x) {
            return t.dot(x[0], x[1], d.lhsBatch, d.rhsBatch, d.lhsContract, d.rhsContract);
          },
          [=](const Arrays &x) { return einsum(lhs, rhs, result, lhsShape, rhsShape, x); }};
}

Sample sumOfProducts() {
  Sample sample = dot("plus", {3, 5}, {5, 7}, {{}, {}, {1}, {0}}, "mk", "kn", "mn");
  sample.inputs.push_back(floats({3, 7}));
  sample.build = [](TapeBuilder &t, ValueRange x) { return t.dot(x[0], x[1], {}, {}, {1}, {0}, {}, {}, x[2]); };
  sample.expected = [product = sample.expected](const Arrays &x) {
    Arrays sum = product(x);
    for (size_t i = 0; i < sum[0].size(); ++i)
      sum[0][i] += x[2][i];
    return sum;
  };
  return sample;
}
} // namespace

std::vector<Sample> matMulSamples() {
  return {
      dot("matrices", {3, 5}, {5, 7}, {{}, {}, {1}, {0}}, "mk", "kn", "mn"),
      dot("transposed", {5, 3}, {7, 5}, {{}, {}, {0}, {1}}, "km", "nk", "mn"),
      dot("linear", {2, 3, 5}, {5, 4}, {{}, {}, {2}, {0}}, "btk", "kn", "btn"),
      dot("batch", {2, 3, 5}, {2, 5, 4}, {{0}, {0}, {2}, {1}}, "bmk", "bkn", "bmn"),
      dot("heads", {2, 3, 2, 5}, {2, 4, 2, 5}, {{0, 2}, {0, 2}, {3}, {3}}, "bqhd", "bkhd", "bhqk"),
      dot("batch_last", {3, 5, 2}, {5, 4, 2}, {{2}, {2}, {1}, {0}}, "mkb", "knb", "bmn"),
      dot("two_contracted", {2, 3, 5}, {2, 3, 4}, {{}, {}, {0, 1}, {0, 1}}, "jkm", "jkn", "mn"),
      dot("crossed_contraction", {2, 3, 5}, {3, 4, 2}, {{}, {}, {0, 1}, {2, 0}}, "jkm", "knj", "mn"),
      dot("outer", {3}, {4}, {{}, {}, {}, {}}, "m", "n", "mn"),
      dot("inner", {6}, {6}, {{}, {}, {0}, {0}}, "k", "k", ""),
      dot("wide", {2, 130}, {130, 67}, {{}, {}, {1}, {0}}, "mk", "kn", "mn"), // more than a strip of columns
      sumOfProducts(),
  };
}

} // namespace tapeout::ops
