// The kernels of codegen/cuda/device/AttentionGradient.cpp, without a GPU, against attention in double.
#include "codegen/cuda/device/AttentionGradient.h"

#include "runtime/base/BFloat16.h"
#include "runtime/base/Philox.h"
#include "tests/codegen/cuda/HopperEmulator.h"
#include "tests/runtime/AttentionReference.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>

using namespace tapeout;
using namespace tapeout::codegen;

extern "C" {
AttentionSizes tapeoutAttentionSizes; // a constant where the compiler sets it
extern const uint32_t tapeoutAttentionQueryBytes, tapeoutAttentionKeyBytes;

using QueryGradient = void(const void *query, const void *key, const void *value, const void *result, const float *lse,
                           const void *gradient, void *queryGradient, float *numbers);
using QueryGradientSums = void(const void *query, const void *key, const void *value, const void *result,
                               const float *lse, const void *gradient, void *queryGradient, float *numbers,
                               float *sums);
using KeyGradients = void(const void *query, const void *key, const void *value, const void *gradient,
                          const float *numbers, void *keyGradient, void *valueGradient);
using KeyGradientsSums = void(const void *query, const void *key, const void *value, const void *gradient,
                              const float *numbers, void *keyGradient, void *valueGradient, float *keySums,
                              float *valueSums);
QueryGradient attention_query_gradient_bf16, attention_query_gradient_f16;
QueryGradientSums attention_query_gradient_sums_bf16, attention_query_gradient_sums_f16;
KeyGradients attention_key_gradients_bf16, attention_key_gradients_f16;
KeyGradientsSums attention_key_gradients_sums_bf16, attention_key_gradients_sums_f16;
}

namespace {

using rt::test::AttentionShape;
using Type = ElementType;
using Bits = std::vector<uint16_t>; // of elements

constexpr uint16_t kNaN = 0xFFFF;
constexpr int64_t kTile = 64; // tokens
// What is not the gradients': elements in front of each row, and rows behind the last one.
constexpr int64_t kMargin = 64, kRowsBehind = 128;

/// Query, key and value are slices of one tensor, and their gradients those of another one.
class Attention {
public:
  /// An offset is added to all scores.
  explicit Attention(const AttentionShape &shape, double offset = 0)
      : shape(shape), qkv(random(shape.packedWidth(), 1)), resultGradient(random(shape.width(), 2)) {
    for (int64_t row = 0; offset != 0 && row < shape.batch * shape.tokens; ++row)
      for (int64_t head = 0; head < shape.heads; ++head) {
        uint16_t *query = &qkv[row * shape.packedWidth() + head * shape.size];
        query[0] = rounded(offset / shape.scale());
        query[shape.width()] = rounded(1); // of the key
      }
    rt::ThreadPool pool(1);
    expected = rt::test::referenceAttention(shape, numbersOf(qkv), numbersOf(resultGradient), {}, pool);
    for (double number : expected.result)
      result.push_back(rounded(number));
    lse.assign(expected.lse.begin(), expected.lse.end());
  }

  /// Rows of a margin and the gradients of query, key and value. `sums`, unless null, become those of the columns of
  /// each tile: [batch, tiles, 3, heads, size], and behind them one tile of nothing.
  Bits gradients(int64_t blocks, bool backwards, std::vector<float> *sums = nullptr) const {
    const int64_t width = shape.packedWidth() + kMargin;
    Bits packed((shape.batch * shape.tokens + kRowsBehind) * width, kNaN);
    std::vector<float> numbers(2 * lse.size(), std::numeric_limits<float>::quiet_NaN());
    auto place = [&](int64_t first, int64_t width) {
      return AttentionPlace{first, shape.tokens * width, width, shape.size};
    };
    AttentionSizes &sizes = tapeoutAttentionSizes;
    sizes = {int32_t(shape.batch), int32_t(shape.heads), int32_t(shape.tokens), shape.causal, float(shape.scale()), {}};
    for (int i = 0; i < 3; ++i) {
      sizes.places[kQuery + i] = place(i * shape.width(), shape.packedWidth());
      sizes.places[kQueryGradient + i] = place(kMargin + i * shape.width(), width);
    }
    sizes.places[kResult] = sizes.places[kResultGradient] = place(0, shape.width());

    if (sums)
      sums->assign((shape.batch * tiles() + 1) * shape.packedWidth(), std::numeric_limits<float>::quiet_NaN());
    for (int i = 0; sums && i < 3; ++i)
      sizes.places[kQuerySums + i] = {i * shape.width(), tiles() * shape.packedWidth(), shape.packedWidth(),
                                      shape.size};

    const void *x = qkv.data(), *y = result.data(), *dy = resultGradient.data();
    void *dx = packed.data();
    float *of = numbers.data(), *s = sums ? sums->data() : nullptr;
    const bool bf16 = shape.type == Type::BF16;
    const Launch launch{blocks, kAttentionThreads, backwards};
    EXPECT_EQ(runOnHopperEmulator(launch, tapeoutAttentionQueryBytes,
                                  [&] {
                                    if (sums)
                                      (bf16 ? attention_query_gradient_sums_bf16
                                            : attention_query_gradient_sums_f16)(x, x, x, y, lse.data(), dy, dx, of, s);
                                    else
                                      (bf16 ? attention_query_gradient_bf16
                                            : attention_query_gradient_f16)(x, x, x, y, lse.data(), dy, dx, of);
                                  }),
              "");
    EXPECT_EQ(runOnHopperEmulator(launch, tapeoutAttentionKeyBytes,
                                  [&] {
                                    if (sums)
                                      (bf16 ? attention_key_gradients_sums_bf16
                                            : attention_key_gradients_sums_f16)(x, x, x, dy, of, dx, dx, s, s);
                                    else
                                      (bf16 ? attention_key_gradients_bf16 : attention_key_gradients_f16)(x, x, x, dy,
                                                                                                          of, dx, dx);
                                  }),
              "");
    return packed;
  }

  /// Each gradient by itself: that of the value is the largest.
  void expectReference(const Bits &packed) const {
    const int64_t rows = shape.batch * shape.tokens, width = shape.packedWidth() + kMargin;
    const char *names[] = {"query", "key", "value"};
    for (int tensor = 0; tensor < 3; ++tensor) {
      std::vector<double> actual, wanted;
      for (int64_t row = 0; row < rows; ++row)
        for (int64_t i = tensor * shape.width(); i < (tensor + 1) * shape.width(); ++i) {
          actual.push_back(number(packed[row * width + kMargin + i]));
          wanted.push_back(expected.packedGradient[row * shape.packedWidth() + i]);
        }
      EXPECT_LT(rt::test::relativeError(actual, wanted), shape.type == Type::BF16 ? 6e-3 : 8e-4) << names[tensor];
    }
    for (int64_t row = 0; row < rows + kRowsBehind; ++row)
      for (int64_t i = 0; i < (row < rows ? kMargin : width); ++i)
        ASSERT_EQ(packed[row * width + i], kNaN) << "row " << row << " is written where it is another tensor's";
  }

  /// Those of the gradients as they have been rounded.
  void expectSums(const Bits &packed, const std::vector<float> &sums) const {
    const int64_t packedWidth = shape.packedWidth(), width = packedWidth + kMargin;
    std::vector<double> expected(shape.batch * tiles() * packedWidth);
    for (int64_t b = 0; b < shape.batch; ++b)
      for (int64_t t = 0; t < shape.tokens; ++t)
        for (int64_t i = 0; i < packedWidth; ++i)
          expected[(b * tiles() + t / kTile) * packedWidth + i] +=
              number(packed[(b * shape.tokens + t) * width + kMargin + i]);
    EXPECT_LT(rt::test::relativeError({sums.begin(), sums.end()}, expected), 1e-6);
    for (size_t i = expected.size(); i < sums.size(); ++i)
      ASSERT_TRUE(std::isnan(sums[i])) << "a sum is written behind the last tile";
  }

  const AttentionShape shape;

private:
  int64_t tiles() const { return (shape.tokens + kTile - 1) / kTile; }
  Bits random(int64_t width, uint64_t stream) const {
    Bits bits(shape.batch * shape.tokens * width);
    EXPECT_TRUE((RandomStream{.seed = 7, .stream = stream}.fillUniform(
        shape.type, reinterpret_cast<uint8_t *>(bits.data()), 0, bits.size(), -1.5, 1.5)));
    return bits;
  }
  double number(uint16_t bits) const { return shape.type == Type::BF16 ? bfloat16ToFloat(bits) : halfToFloat(bits); }
  uint16_t rounded(double number) const {
    return shape.type == Type::BF16 ? doubleToBfloat16(number) : doubleToHalf(number);
  }
  std::vector<double> numbersOf(const Bits &tensor) const {
    std::vector<double> numbers;
    for (uint16_t bits : tensor)
      numbers.push_back(number(bits));
    return numbers;
  }

  Bits qkv;
  const Bits resultGradient;
  Bits result;
  std::vector<float> lse;
  rt::test::ReferenceAttention expected;
};

void expectReferenceInAnyOrder(const Attention &attention) {
  SCOPED_TRACE(attention.shape.text());
  Bits packed = attention.gradients(/*blocks=*/3, /*backwards=*/false);
  attention.expectReference(packed);
  EXPECT_TRUE(attention.gradients(3, true) == packed) << "a race";
  EXPECT_TRUE(attention.gradients(1, false) == packed) << "bits depend on the number of blocks";
}

void expectSumsBesides(const Attention &attention) {
  SCOPED_TRACE(attention.shape.text());
  std::vector<float> sums, others;
  Bits packed = attention.gradients(/*blocks=*/1, /*backwards=*/false, &sums);
  attention.expectSums(packed, sums);
  EXPECT_TRUE(attention.gradients(1, false) == packed) << "sums change the gradients";
  EXPECT_TRUE(attention.gradients(3, true, &others) == packed) << "a race";
  EXPECT_EQ(std::memcmp(others.data(), sums.data(), sums.size() * sizeof(float)), 0) << "a race";
}

// A tile is 64 tokens. A block works on two tiles at once, and on two such pairs of one head after each other. Its ring
// has places for 8 tiles.
AttentionShape shapeOf(Type type, bool causal, int64_t batch, int64_t heads, int64_t tokens) {
  return {type, causal, batch, heads, heads, tokens, kAttentionHead};
}

TEST(AttentionGradientTest, OneTile) { expectReferenceInAnyOrder(Attention(shapeOf(Type::BF16, true, 1, 2, 64))); }
TEST(AttentionGradientTest, AFewTokensInTheSecondTile) {
  expectReferenceInAnyOrder(Attention(shapeOf(Type::F16, false, 2, 1, 72)));
}
TEST(AttentionGradientTest, ThreeTiles) { expectReferenceInAnyOrder(Attention(shapeOf(Type::BF16, true, 1, 3, 192))); }
TEST(AttentionGradientTest, AFewTokensInTheFourthTile) {
  expectReferenceInAnyOrder(Attention(shapeOf(Type::BF16, false, 2, 2, 200)));
  expectReferenceInAnyOrder(Attention(shapeOf(Type::F16, true, 2, 2, 200)));
}
TEST(AttentionGradientTest, FiveTiles) {
  expectReferenceInAnyOrder(Attention(shapeOf(Type::BF16, true, 1, 2, 264)));
  expectReferenceInAnyOrder(Attention(shapeOf(Type::F16, false, 1, 2, 264)));
}
TEST(AttentionGradientTest, MoreTilesThanTheRingHas) { // and an odd number of them
  expectReferenceInAnyOrder(Attention(shapeOf(Type::BF16, true, 1, 1, 520)));
  expectReferenceInAnyOrder(Attention(shapeOf(Type::BF16, false, 1, 1, 520)));
}
TEST(AttentionGradientTest, SumsOfColumns) {
  expectSumsBesides(Attention(shapeOf(Type::BF16, true, 2, 2, 72)));
  expectSumsBesides(Attention(shapeOf(Type::F16, false, 2, 2, 136)));
  expectSumsBesides(
      Attention(shapeOf(Type::BF16, false, 1, 1, 72), -150)); // of rows that do not exist, infinite numbers
}
// The exponential of a score of 0, as of tokens behind the last one, would be infinite, or that of no score any but 0.
TEST(AttentionGradientTest, ScoresFarFromZero) {
  for (double offset : {-150.0, 150.0})
    expectReferenceInAnyOrder(Attention(shapeOf(Type::BF16, false, 1, 1, 72), offset));
}

} // namespace
