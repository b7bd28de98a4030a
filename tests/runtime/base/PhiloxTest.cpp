#include "runtime/base/Philox.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <vector>

using namespace tapeout;

namespace {

using Words = std::array<uint32_t, 4>;

// The known answers that the authors publish with Random123.
TEST(Philox, GivesThePublishedKnownAnswers) {
  EXPECT_EQ(philox4x32({0, 0, 0, 0}, {0, 0}), (Words{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  uint32_t ones = 0xffffffff;
  EXPECT_EQ(philox4x32({ones, ones, ones, ones}, {ones, ones}),
            (Words{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(philox4x32({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
            (Words{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(Philox, UniformNumbersUseTheHighBitsAndStayBelowOne) {
  EXPECT_EQ(uniformFloat(0), 0.0f);
  EXPECT_EQ(uniformFloat(0xff), 0.0f);
  EXPECT_EQ(uniformFloat(0x80000000), 0.5f);
  EXPECT_EQ(uniformFloat(0xffffffff), 1.0f - 0x1p-24f);
  EXPECT_EQ(uniformDouble(0x7ff, 0), 0.0);
  EXPECT_EQ(uniformDouble(0x800, 0), 0x1p-53);
  EXPECT_EQ(uniformDouble(0, 0x40000000), 0.25);
  EXPECT_EQ(uniformDouble(0xffffffff, 0xffffffff), 1.0 - 0x1p-53);
}

TEST(Philox, NormalPairIsFiniteAtTheEnds) {
  EXPECT_EQ(normalPair({0, 0, 0, 0})[0], 0.0);
  double largest = normalPair({0xffffffff, 0xffffffff, 0, 0})[0]; // sqrt(2 * 53 * ln 2)
  EXPECT_NEAR(largest, 8.571674348652905, 1e-12);
}

TEST(RandomStream, ElementsAreMadeOfTheDocumentedWords) {
  RandomStream random{0x0000000200000001, 0x0000000400000003};
  Words words = philox4x32({5, 0, 3, 4}, {1, 2});
  EXPECT_EQ(random.uniform(10), uniformDouble(words[0], words[1]));
  EXPECT_EQ(random.uniform(11), uniformDouble(words[2], words[3]));
  EXPECT_EQ(random.normal(10), normalPair(words)[0]);
  EXPECT_EQ(random.normal(11), normalPair(words)[1]);
  EXPECT_EQ(random.block(uint64_t{7} << 32), philox4x32({0, 7, 3, 4}, {1, 2}));
}

// Any split of the array gives the same elements.
TEST(RandomStream, ValuesDoNotDependOnTheSplit) {
  RandomStream random{42, 7};
  std::vector<float> whole(1001), pieces(1001);
  ASSERT_TRUE(random.fillNormal(ElementType::F32, whole.data(), 0, whole.size(), 0.5, 0.02));
  for (uint64_t first = 0, count = 1; first < pieces.size(); first += count, count = count * 2 + 1)
    ASSERT_TRUE(random.fillNormal(ElementType::F32, pieces.data() + first, first,
                                  std::min<uint64_t>(count, pieces.size() - first), 0.5, 0.02));
  EXPECT_EQ(whole, pieces);
  EXPECT_EQ(whole[999], static_cast<float>(0.5 + 0.02 * random.normal(999)));
}

TEST(RandomStream, StreamsAndSeedsDiffer) {
  EXPECT_NE((RandomStream{1, 1}.uniform(0)), (RandomStream{1, 2}.uniform(0)));
  EXPECT_NE((RandomStream{1, 1}.uniform(0)), (RandomStream{2, 1}.uniform(0)));
}

TEST(RandomStream, EveryFloatTypeIsTheRoundedDouble) {
  RandomStream random{3, 4};
  std::vector<double> doubles(64);
  std::vector<float> floats(64);
  std::vector<uint16_t> brains(64), halves(64);
  ASSERT_TRUE(random.fillUniform(ElementType::F64, doubles.data(), 5, 64, -1.0, 3.0));
  ASSERT_TRUE(random.fillUniform(ElementType::F32, floats.data(), 5, 64, -1.0, 3.0));
  ASSERT_TRUE(random.fillUniform(ElementType::BF16, brains.data(), 5, 64, -1.0, 3.0));
  ASSERT_TRUE(random.fillUniform(ElementType::F16, halves.data(), 5, 64, -1.0, 3.0));
  for (size_t i = 0; i < 64; ++i) {
    EXPECT_EQ(doubles[i], -1.0 + 4.0 * random.uniform(5 + i));
    EXPECT_EQ(floats[i], static_cast<float>(doubles[i]));
    EXPECT_EQ(brains[i], doubleToBfloat16(doubles[i]));
    EXPECT_EQ(halves[i], doubleToHalf(doubles[i]));
  }
}

TEST(RandomStream, IntegersAreRefused) {
  int32_t value = 17;
  EXPECT_FALSE((RandomStream{1, 1}.fillUniform(ElementType::I32, &value, 0, 1, 0.0, 1.0)));
  EXPECT_EQ(value, 17);
}

TEST(RandomStream, MomentsAreThoseOfTheDistributions) {
  constexpr size_t count = 200'000;
  RandomStream random{2024, 0};
  double sum = 0, squares = 0, fourth = 0, neighbours = 0, uniformSum = 0, uniformSquares = 0;
  for (size_t i = 0; i < count; i += 2) {
    double x = random.normal(i), y = random.normal(i + 1);
    sum += x + y;
    squares += x * x + y * y;
    fourth += x * x * x * x + y * y * y * y;
    neighbours += x * y;
    double u = random.uniform(i), v = random.uniform(i + 1);
    uniformSum += u + v;
    uniformSquares += u * u + v * v;
  }
  EXPECT_NEAR(sum / count, 0.0, 0.01);
  EXPECT_NEAR(squares / count, 1.0, 0.015);
  EXPECT_NEAR(fourth / count, 3.0, 0.1);
  EXPECT_NEAR(neighbours / (count / 2), 0.0, 0.015);
  EXPECT_NEAR(uniformSum / count, 0.5, 0.003);
  EXPECT_NEAR(uniformSquares / count, 1.0 / 3.0, 0.003);
}

} // namespace
