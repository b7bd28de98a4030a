#include "runtime/base/ElementType.h"
#include "runtime/base/BFloat16.h"

#include <gtest/gtest.h>

#include <limits>

using namespace tapeout;

namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

TEST(ElementType, NamesAndSizesFollowTheNumbersOfThePlan) {
  EXPECT_EQ(static_cast<int>(ElementType::F32), 0);
  EXPECT_EQ(static_cast<int>(ElementType::I1), 4);
  EXPECT_EQ(static_cast<int>(ElementType::I64), 6);
  EXPECT_EQ(name(ElementType::BF16), "bf16");
  EXPECT_EQ(elementSize(ElementType::F64), 8u);
  EXPECT_EQ(elementSize(ElementType::F16), 2u);
  EXPECT_EQ(elementSize(ElementType::I1), 1u);
  EXPECT_TRUE(isFloat(ElementType::F16));
  EXPECT_FALSE(isFloat(ElementType::I1));
  EXPECT_FALSE(isValid(static_cast<ElementType>(7)));
}

TEST(ElementType, ParseIsTheInverseOfName) {
  for (uint8_t i = 0; i < kElementTypeCount; ++i)
    EXPECT_EQ(parseElementType(name(static_cast<ElementType>(i))), static_cast<ElementType>(i));
  EXPECT_EQ(parseElementType("f8"), std::nullopt);
}

TEST(BFloat16, RoundsToNearestEven) {
  EXPECT_EQ(floatToBfloat16(1.0f), 0x3f80);
  EXPECT_EQ(floatToBfloat16(1.0f + 0x1p-8f), 0x3f80);            // tie, down to even
  EXPECT_EQ(floatToBfloat16(1.0f + 0x3p-8f), 0x3f82);            // tie, up to even
  EXPECT_EQ(floatToBfloat16(1.0f + 0x1p-8f + 0x1p-23f), 0x3f81); // just above a tie
  EXPECT_EQ(floatToBfloat16(-0.0f), 0x8000);
  EXPECT_EQ(floatToBfloat16(std::numeric_limits<float>::max()), 0x7f80); // rounds to infinity
  EXPECT_EQ(floatToBfloat16(-kInfinity), 0xff80);
}

TEST(BFloat16, EveryValueSurvivesTheRoundTrip) {
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    float value = bfloat16ToFloat(static_cast<uint16_t>(bits));
    uint32_t quiet = std::isnan(value) ? bits | 0x40 : bits;
    ASSERT_EQ(floatToBfloat16(value), quiet);
    ASSERT_EQ(doubleToBfloat16(value), quiet);
  }
}

TEST(BFloat16, NanWithLowPayloadDoesNotBecomeInfinity) {
  EXPECT_TRUE(std::isnan(bfloat16ToFloat(floatToBfloat16(std::bit_cast<float>(0x7f800001u)))));
  EXPECT_TRUE(std::isnan(halfToFloat(floatToHalf(std::bit_cast<float>(0x7f800001u)))));
}

TEST(Half, RoundsToNearestEven) {
  EXPECT_EQ(floatToHalf(1.0f), 0x3c00);
  EXPECT_EQ(floatToHalf(1.0f + 0x1p-11f), 0x3c00);
  EXPECT_EQ(floatToHalf(1.0f + 0x3p-11f), 0x3c02);
  EXPECT_EQ(floatToHalf(65504.0f), 0x7bff);
  EXPECT_EQ(floatToHalf(65519.99f), 0x7bff);
  EXPECT_EQ(floatToHalf(65520.0f), 0x7c00);
  EXPECT_EQ(floatToHalf(-1e30f), 0xfc00);
  EXPECT_EQ(floatToHalf(0x1p-24f), 0x0001); // smallest subnormal
  EXPECT_EQ(floatToHalf(0x1p-25f), 0x0000); // tie, to even
  EXPECT_EQ(floatToHalf(0x3p-25f), 0x0002); // tie, to even
  EXPECT_EQ(floatToHalf(-0x1p-40f), 0x8000);
  EXPECT_EQ(floatToHalf(0x1.ffcp-15f + 0x1p-25f), 0x0400); // the carry from subnormal to normal
}

TEST(Half, EveryValueSurvivesTheRoundTrip) {
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    float value = halfToFloat(static_cast<uint16_t>(bits));
    uint32_t quiet = std::isnan(value) ? bits | 0x200 : bits;
    ASSERT_EQ(floatToHalf(value), quiet);
    ASSERT_EQ(doubleToHalf(value), quiet);
  }
}

// Between two neighbours, the middle goes to the even one and the smallest step away from it decides, even in double.
TEST(Half, DoublesAreRoundedOnce) {
  for (uint16_t bits = 0; bits < 0x7bff; ++bits) {
    double low = halfToFloat(bits), high = halfToFloat(bits + 1), middle = (low + high) / 2;
    ASSERT_EQ(doubleToHalf(middle), bits % 2 == 0 ? bits : bits + 1);
    ASSERT_EQ(doubleToHalf(std::nextafter(middle, 0.0)), bits);
    ASSERT_EQ(doubleToHalf(std::nextafter(middle, 1e9)), bits + 1);
  }
}

TEST(BFloat16, DoublesAreRoundedOnce) {
  for (uint16_t bits = 0; bits < 0x7f7f; ++bits) {
    double low = bfloat16ToFloat(bits), high = bfloat16ToFloat(bits + 1), middle = (low + high) / 2;
    ASSERT_EQ(doubleToBfloat16(middle), bits % 2 == 0 ? bits : bits + 1);
    ASSERT_EQ(doubleToBfloat16(std::nextafter(-middle, 0.0)), bits | 0x8000);
    ASSERT_EQ(doubleToBfloat16(std::nextafter(middle, 1e300)), bits + 1);
  }
  EXPECT_EQ(doubleToBfloat16(1e300), 0x7f80);
  EXPECT_EQ(doubleToBfloat16(-1e-300), 0x8000);
}

} // namespace
