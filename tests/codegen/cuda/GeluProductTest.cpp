// The kernels of codegen/cuda/device/GeluProduct.cpp, without a GPU, against products and GELU in double.
#include "codegen/cuda/device/GeluProduct.h"

#include "runtime/base/BFloat16.h"
#include "runtime/base/Philox.h"
#include "tests/codegen/cuda/HopperEmulator.h"
#include "tests/runtime/AttentionReference.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <numbers>

using namespace tapeout;
using namespace tapeout::codegen;
using hopper::TensorMap;

extern "C" {
GeluProductSizes tapeoutGeluProductSizes; // a constant where the compiler sets it
extern const uint32_t tapeoutGeluProductBytes;

using GeluProduct = void(const void *tokens, const void *weights, const void *bias, void *result, void *slope,
                         TensorMap ofTokens, TensorMap ofWeights, TensorMap ofResult, TensorMap ofSlope);
using ScaledProduct = void(const void *tokens, const void *weights, const void *slope, void *result, float *sums,
                           TensorMap ofTokens, TensorMap ofWeights, TensorMap ofSlope, TensorMap ofResult);
GeluProduct gelu_product_tanh_by_feature_bf16, gelu_product_tanh_by_inner_bf16, gelu_product_tanh_by_feature_f16,
    gelu_product_tanh_by_inner_f16, gelu_product_erf_by_feature_bf16, gelu_product_erf_by_inner_bf16,
    gelu_product_erf_by_feature_f16, gelu_product_erf_by_inner_f16;
ScaledProduct scaled_product_by_feature_bf16, scaled_product_by_inner_bf16, scaled_product_by_feature_f16,
    scaled_product_by_inner_f16;
}

namespace {

using Type = ElementType;
using Bits = std::vector<uint16_t>; // of elements

constexpr uint16_t kNaN = 0xFFFF;
constexpr int64_t kRowsAround = kProductTokens; // of a result, before and behind: not its own

struct Shape {
  Type type;
  bool byInner; // weights are [inner, features]
  int64_t tokens, features, inner;

  int64_t tiles() const { return (tokens + kProductTokens - 1) / kProductTokens; }
  std::string text() const {
    return std::string(type == Type::BF16 ? "bf16" : "f16") + (byInner ? " [inner, features]" : " [features, inner]") +
           " " + std::to_string(tokens) + " x " + std::to_string(features) + " x " + std::to_string(inner);
  }
};

TensorMap mapOf(const uint16_t *matrix, int64_t rows, int64_t columns, ProductBox box) {
  return emulatedMap(matrix, rows, columns, box.rows, box.columns);
}

class Product {
public:
  explicit Product(const Shape &shape)
      : shape(shape), tokens_(random(shape.tokens * shape.inner, 1, 1)),
        weights_(random(shape.inner * shape.features, 2, 4.5 / std::sqrt(shape.inner))),
        bias_(random(shape.features, 3, 1)), slope_(random(shape.tokens * shape.features, 4, 1)) {
    std::vector<double> tokens = numbersOf(tokens_), weights = numbersOf(weights_);
    std::vector<double> byInner = weights;
    if (!shape.byInner)
      for (int64_t f = 0; f < shape.features; ++f)
        for (int64_t i = 0; i < shape.inner; ++i)
          byInner[i * shape.features + f] = weights[f * shape.inner + i];
    expected_.resize(shape.tokens * shape.features);
    for (int64_t t = 0; t < shape.tokens; ++t)
      for (int64_t i = 0; i < shape.inner; ++i)
        for (int64_t f = 0; f < shape.features; ++f)
          expected_[t * shape.features + f] += tokens[t * shape.inner + i] * byInner[i * shape.features + f];
  }

  struct Results {
    Bits result, slope;
    std::vector<float> sums;
    bool operator==(const Results &other) const {
      return result == other.result && slope == other.slope && sums.size() == other.sums.size() &&
             std::memcmp(sums.data(), other.sums.data(), sums.size() * sizeof(float)) == 0;
    }
  };

  Results gelu(bool erf, int64_t blocks, bool backwards) const {
    Results results{nothing(), nothing(), {}};
    GeluProduct *const kernels[] = {
        gelu_product_tanh_by_feature_bf16, gelu_product_tanh_by_inner_bf16, gelu_product_erf_by_feature_bf16,
        gelu_product_erf_by_inner_bf16,    gelu_product_tanh_by_feature_f16, gelu_product_tanh_by_inner_f16,
        gelu_product_erf_by_feature_f16,   gelu_product_erf_by_inner_f16};
    launch(blocks, backwards, [&, kernel = kernels[(shape.type == Type::BF16 ? 0 : 4) + 2 * erf + shape.byInner]] {
      kernel(nullptr, nullptr, bias_.data(), nullptr, nullptr, tokensMap(), weightsMap(),
             resultMap(&results.result[margin()]), resultMap(&results.slope[margin()]));
    });
    return results;
  }
  Results scaled(int64_t blocks, bool backwards) const {
    Results results{nothing(), {}, {}};
    results.sums.assign((shape.tiles() + 1) * shape.features, std::numeric_limits<float>::quiet_NaN());
    ScaledProduct *const kernels[] = {scaled_product_by_feature_bf16, scaled_product_by_inner_bf16,
                                      scaled_product_by_feature_f16, scaled_product_by_inner_f16};
    launch(blocks, backwards, [&, kernel = kernels[(shape.type == Type::BF16 ? 0 : 2) + shape.byInner]] {
      kernel(nullptr, nullptr, nullptr, nullptr, results.sums.data(), tokensMap(), weightsMap(),
             resultMap(slope_.data()), resultMap(&results.result[margin()]));
    });
    return results;
  }

  void expectGelu(bool erf, const Results &results) const {
    const uint16_t *result = &results.result[margin()], *slopes = &results.slope[margin()];
    for (size_t i = 0; i < expected_.size(); ++i) {
      const double x = expected_[i] + number(bias_[i % shape.features]);
      double value, slope;
      if (erf) {
        const double distribution = std::erfc(-x / std::numbers::sqrt2) / 2;
        value = x * distribution;
        slope = distribution + x * std::exp(-x * x / 2) / std::sqrt(2 * std::numbers::pi);
      } else {
        const double a = std::sqrt(2 / std::numbers::pi), t = std::tanh(a * (x + 0.044715 * x * x * x));
        value = x / 2 * (1 + t);
        slope = (1 + t) / 2 + x / 2 * (1 - t * t) * a * (1 + 3 * 0.044715 * x * x);
      }
      ASSERT_NEAR(number(result[i]), value, roundingOf(value)) << "of " << x << " at " << i;
      ASSERT_NEAR(number(slopes[i]), slope, roundingOf(slope)) << "of " << x << " at " << i;
    }
    expectNothingAround(results.result);
    expectNothingAround(results.slope);
  }
  void expectScaled(const Results &results) const {
    std::vector<double> sums(shape.tiles() * shape.features);
    for (size_t i = 0; i < expected_.size(); ++i) {
      const double value = expected_[i] * number(slope_[i]);
      ASSERT_NEAR(number(results.result[margin() + i]), value, roundingOf(value)) << "at " << i;
      sums[i / shape.features / kProductTokens * shape.features + i % shape.features] += value;
    }
    EXPECT_LT(rt::test::relativeError({results.sums.begin(), results.sums.end()}, sums), 1e-5);
    expectNothingAround(results.result);
    for (size_t i = sums.size(); i < results.sums.size(); ++i)
      ASSERT_TRUE(std::isnan(results.sums[i])) << "a sum is written behind the last tile";
  }

  const Shape shape;

private:
  TensorMap weightsMap() const {
    return shape.byInner ? mapOf(weights_.data(), shape.inner, shape.features, kWeightsByInnerBox)
                         : mapOf(weights_.data(), shape.features, shape.inner, kWeightsByFeatureBox);
  }
  TensorMap tokensMap() const { return mapOf(tokens_.data(), shape.tokens, shape.inner, kProductTokensBox); }
  TensorMap resultMap(const uint16_t *matrix) const {
    return mapOf(matrix, shape.tokens, shape.features, kProductResultBox);
  }
  void launch(int64_t blocks, bool backwards, const std::function<void()> &kernel) const {
    tapeoutGeluProductSizes = {int32_t(shape.tokens), int32_t(shape.features), int32_t(shape.inner)};
    EXPECT_EQ(runOnHopperEmulator({blocks, kProductThreads, backwards}, tapeoutGeluProductBytes, kernel), "");
  }

  int64_t margin() const { return kRowsAround * shape.features; }
  Bits nothing() const { return Bits(expected_.size() + 2 * margin(), kNaN); }
  void expectNothingAround(const Bits &matrix) const {
    for (int64_t i = 0; i < margin(); ++i) {
      ASSERT_EQ(matrix[i], kNaN) << "a row is written before the first token";
      ASSERT_EQ(matrix[margin() + expected_.size() + i], kNaN) << "a row is written behind the last token";
    }
  }
  /// What a number may be off by that is rounded once, of a sum in f32.
  double roundingOf(double x) const {
    return 1e-5 + 1.001 * std::abs(x) * (shape.type == Type::BF16 ? 0x1p-8 : 0x1p-11);
  }
  Bits random(int64_t count, uint64_t stream, double limit) const {
    Bits bits(count);
    EXPECT_TRUE((RandomStream{.seed = 7, .stream = stream}.fillUniform(
        shape.type, reinterpret_cast<uint8_t *>(bits.data()), 0, bits.size(), -limit, limit)));
    return bits;
  }
  double number(uint16_t bits) const { return shape.type == Type::BF16 ? bfloat16ToFloat(bits) : halfToFloat(bits); }
  std::vector<double> numbersOf(const Bits &tensor) const {
    std::vector<double> numbers;
    for (uint16_t bits : tensor)
      numbers.push_back(number(bits));
    return numbers;
  }

  const Bits tokens_, weights_, bias_, slope_;
  std::vector<double> expected_; // the product
};

/// Both kinds and both forms, for different numbers of blocks.
void expectProducts(const Shape &shape) {
  SCOPED_TRACE(shape.text());
  const Product product(shape);
  for (bool erf : {false, true}) {
    SCOPED_TRACE(erf ? "erf" : "tanh");
    const Product::Results results = product.gelu(erf, /*blocks=*/1, /*backwards=*/false);
    product.expectGelu(erf, results);
    EXPECT_TRUE(product.gelu(erf, 3, true) == results) << "a race, or bits depend on the number of blocks";
  }
  const Product::Results results = product.scaled(1, false);
  product.expectScaled(results);
  EXPECT_TRUE(product.scaled(3, true) == results) << "a race, or bits depend on the number of blocks";
}

// A tile is 160 tokens of 128 features. The ring has places for 4 times 64 of the inner numbers.
TEST(GeluProductTest, OneToken) {
  expectProducts({Type::BF16, false, 1, 128, 64});
  expectProducts({Type::F16, true, 1, 128, 64});
}
TEST(GeluProductTest, OneTile) {
  expectProducts({Type::BF16, true, 160, 128, 128});
  expectProducts({Type::F16, false, 160, 128, 192});
}
TEST(GeluProductTest, LessThanHalfATile) { expectProducts({Type::BF16, false, 37, 256, 192}); }
TEST(GeluProductTest, OneTokenInTheSecondTile) {
  expectProducts({Type::F16, true, 161, 256, 64});
  expectProducts({Type::BF16, true, 161, 128, 320});
}
TEST(GeluProductTest, MoreTilesThanBlocks) {
  expectProducts({Type::BF16, false, 500, 384, 64});
  expectProducts({Type::F16, true, 640, 256, 128});
}
TEST(GeluProductTest, MoreStepsThanTheRingHas) {
  expectProducts({Type::BF16, true, 500, 256, 768});
  expectProducts({Type::F16, false, 200, 384, 768});
}

} // namespace
