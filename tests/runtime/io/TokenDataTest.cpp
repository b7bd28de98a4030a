#include "runtime/io/DataLoader.h"

#include "tests/runtime/io/TestFiles.h"

#include <gtest/gtest.h>

#include <chrono>
#include <map>
#include <numeric>
#include <set>
#include <thread>

namespace tapeout::rt {
namespace {

using namespace test;

/// 0, 1, 2, ... as text, so that a window's first byte tells where it starts (counts up to 256 tokens).
std::string countingText(size_t size) {
  std::string text(size, '\0');
  std::iota(text.begin(), text.end(), '\0');
  return text;
}

std::vector<uint16_t> countingTokens(size_t size) {
  std::vector<uint16_t> tokens(size);
  std::iota(tokens.begin(), tokens.end(), uint16_t{0});
  return tokens;
}

/// The first token of each sample of the next batches.
std::vector<int32_t> firstTokens(DataLoader &loader, const DataSpec &spec, size_t batches) {
  std::vector<int32_t> firsts;
  for (size_t i = 0; i < batches; ++i) {
    Result<const Batch *> batch = loader.next();
    EXPECT_TRUE(batch.isOk()) << batch.status().message();
    std::vector<int32_t> tokens = values<int32_t>((*batch)->find("tokens"));
    for (int64_t sample = 0; sample < spec.batch; ++sample)
      firsts.push_back(tokens[static_cast<size_t>(sample * spec.context)]);
  }
  return firsts;
}

std::unique_ptr<DataLoader> open(const DataSpec &spec) {
  Result<std::unique_ptr<DataLoader>> loader = DataLoader::create(spec);
  EXPECT_TRUE(loader.isOk()) << loader.status().message();
  return std::move(*loader);
}

Status errorOf(const DataSpec &spec) {
  Result<std::unique_ptr<DataLoader>> loader = DataLoader::create(spec);
  return loader.isOk() ? Status::ok() : loader.status();
}

TEST(TokenData, LabelsAreTheNextTokens) {
  TemporaryFolder folder;
  auto loader = open(tokenSpec(writeFile(folder / "text", countingText(250)), 3, 8));
  for (int i = 0; i < 40; ++i) {
    Result<const Batch *> batch = loader->next();
    ASSERT_TRUE(batch.isOk());
    std::vector<int32_t> tokens = values<int32_t>((*batch)->find("tokens"));
    std::vector<int32_t> labels = values<int32_t>((*batch)->find("labels"));
    EXPECT_EQ((*batch)->sampleCount(), 3);
    for (size_t j = 0; j < tokens.size(); ++j) {
      EXPECT_EQ(labels[j], tokens[j] + 1);
      EXPECT_EQ(tokens[j], tokens[j - j % 8] + static_cast<int32_t>(j % 8));
    }
    EXPECT_TRUE((*batch)->find("images").empty());
  }
}

TEST(TokenData, FillsInputsOfInt64) {
  TemporaryFolder folder;
  DataSpec spec = tokenSpec(writeFile(folder / "text", "\x01\xff\x03"), 1, 2);
  spec.inputs = {{"labels", ElementType::I64, 16}, {"ids", ElementType::I64, 16}};
  spec.shuffle = false;
  auto loader = open(spec);
  Result<const Batch *> batch = loader->next();
  EXPECT_EQ(values<int64_t>((*batch)->find("ids")), (std::vector<int64_t>{1, 255}));
  EXPECT_EQ(values<int64_t>((*batch)->find("labels")), (std::vector<int64_t>{255, 3}));
}

TEST(TokenData, EpochsCoverEverySampleOnceAndFollowWithoutGap) {
  TemporaryFolder folder;
  DataSpec spec = tokenSpec(writeFile(folder / "text", countingText(253)), 3, 10); // 24 or 25 windows
  auto loader = open(spec);
  std::vector<int32_t> firsts = firstTokens(*loader, spec, 60);
  size_t start = 0;
  std::set<int32_t> offsets;
  for (uint64_t epoch = 0; epoch < 6; ++epoch) {
    size_t count = loader->samplesInEpoch(epoch);
    std::set<int32_t> windows(firsts.begin() + static_cast<long>(start),
                              firsts.begin() + static_cast<long>(start + count));
    EXPECT_EQ(windows.size(), count);
    EXPECT_EQ(*windows.rbegin() - *windows.begin(), static_cast<int32_t>(count - 1) * 10);
    EXPECT_LT(*windows.begin(), 10);
    EXPECT_GT(*windows.rbegin() + 20, 252);
    offsets.insert(*windows.begin());
    start += count;
  }
  EXPECT_GT(offsets.size(), 2u) << "windows should shift between epochs";
}

TEST(TokenData, OrderDoesNotDependOnBatchSizeOrRankCount) {
  TemporaryFolder folder;
  std::string path = writeFile(folder / "text", countingText(253));
  DataSpec spec = tokenSpec(path, 1, 10);
  auto loader = open(spec);
  std::vector<int32_t> expected = firstTokens(*loader, spec, 120);
  for (auto [batch, ranks] : {std::pair{12, 1}, {4, 3}, {2, 6}, {40, 1}, {20, 2}}) {
    std::vector<int32_t> joined;
    std::vector<std::unique_ptr<DataLoader>> loaders;
    spec = tokenSpec(path, batch, 10);
    spec.worldSize = ranks;
    for (spec.rank = 0; spec.rank < ranks; ++spec.rank)
      loaders.push_back(open(spec));
    for (int step = 0; step < 120 / (batch * ranks); ++step)
      for (auto &rank : loaders)
        for (int32_t first : firstTokens(*rank, spec, 1))
          joined.push_back(first);
    EXPECT_EQ(joined, expected) << "batch " << batch << ", ranks " << ranks;
  }
}

TEST(TokenData, SeedsGiveOtherOrders) {
  TemporaryFolder folder;
  DataSpec spec = tokenSpec(writeFile(folder / "text", countingText(250)), 4, 8);
  auto first = open(spec);
  spec.seed = 8;
  auto second = open(spec);
  EXPECT_NE(firstTokens(*first, spec, 5), firstTokens(*second, spec, 5));
}

TEST(TokenData, SeekContinuesExactly) {
  TemporaryFolder folder;
  DataSpec spec = tokenSpec(writeFile(folder / "text", countingText(100)), 3, 8);
  auto loader = open(spec);
  EXPECT_EQ(loader->position(), (LoaderPosition{0, 0}));
  firstTokens(*loader, spec, 7);
  LoaderPosition position = loader->position();
  EXPECT_GT(position.epoch, 0u);
  std::vector<int32_t> expected = firstTokens(*loader, spec, 10);

  auto resumed = open(spec);
  firstTokens(*resumed, spec, 1);
  ASSERT_TRUE(resumed->seek(position).isOk());
  EXPECT_EQ(resumed->position(), position);
  EXPECT_EQ(firstTokens(*resumed, spec, 10), expected);
  expectError(resumed->seek({0, 500}), ExitCode::BadData, {"text", "sample 500"});
}

TEST(TokenData, EvaluationCountsEverySampleOnce) {
  TemporaryFolder folder;
  std::string path = writeFile(folder / "text", countingText(71)); // 7 windows of 10
  std::map<int32_t, int> seen;
  for (int64_t rank = 0; rank < 2; ++rank) {
    DataSpec spec = tokenSpec(path, 2, 10);
    spec.shuffle = false;
    spec.rank = rank;
    spec.worldSize = 2;
    auto loader = open(spec);
    for (int pass = 0; pass < 2; ++pass) {
      for (int64_t count : {2, rank == 0 ? 2 : 1}) {
        Result<const Batch *> batch = loader->next();
        ASSERT_TRUE(batch.isOk());
        ASSERT_NE(*batch, nullptr);
        EXPECT_EQ((*batch)->sampleCount(), count);
        std::vector<int32_t> labels = values<int32_t>((*batch)->find("labels"));
        for (size_t i = 0; i < labels.size(); ++i) {
          bool real = static_cast<int64_t>(i) < count * 10;
          EXPECT_EQ(labels[i] == -100, !real);
          seen[labels[i]] += real;
        }
      }
      EXPECT_EQ(*loader->next(), nullptr);
      EXPECT_EQ(*loader->next(), nullptr);
      ASSERT_TRUE(loader->seek({}).isOk());
    }
  }
  for (int32_t label = 1; label <= 70; ++label)
    EXPECT_EQ(seen[label], 2) << "label " << label;
}

TEST(TokenData, JoinsShards) {
  TemporaryFolder folder;
  std::string first = writeFile(folder / "a.bin", shard({0, 1, 2, 3, 4}));
  std::string second = writeFile(folder / "b.bin", shard({5}));
  std::string third = writeFile(folder / "c.bin", shard({6, 7, 8, 9, 10}));
  DataSpec spec = tokenSpec(first + "," + second + "," + third, 5, 2, 50257);
  spec.shuffle = false;
  auto loader = open(spec);
  EXPECT_NE(loader->description().find("11 tokens"), std::string::npos) << loader->description();
  Result<const Batch *> batch = loader->next();
  EXPECT_EQ(values<int32_t>((*batch)->find("tokens")), (std::vector<int32_t>{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}));
  EXPECT_EQ(values<int32_t>((*batch)->find("labels")), (std::vector<int32_t>{1, 2, 3, 4, 5, 6, 7, 8, 9, 10}));
}

TEST(TokenData, TakesAShardForAModelOfBytes) {
  TemporaryFolder folder;
  DataSpec spec = tokenSpec(writeFile(folder / "a.bin", shard({9, 8, 255})), 1, 2);
  spec.shuffle = false;
  auto loader = open(spec);
  EXPECT_EQ(values<int32_t>((*loader->next())->find("tokens")), (std::vector<int32_t>{9, 8}));
}

TEST(TokenData, RefusesAnArrayInsteadOfReadingItsBytes) {
  TemporaryFolder folder;
  std::string path = writeFile(folder / "x.npy", "\x93NUMPY" + std::string(500, 'x'));
  expectError(errorOf(tokenSpec(path, 1, 2, 256)), ExitCode::BadData, {"x.npy", "a .npy array"});
}

TEST(TokenData, RefusesBadTokensWithTheirPlace) {
  TemporaryFolder folder;
  std::string path = writeFile(folder / "bad.bin", shard({1, 2, 3, 50257, 4}));
  expectError(errorOf(tokenSpec(path, 1, 2, 50257)), ExitCode::BadData, {"bad.bin", "token 3", "50257"});
  EXPECT_TRUE(errorOf(tokenSpec(path, 1, 2, 50258)).isOk());
}

TEST(TokenData, RefusesBadTokensThatAppearLater) {
  TemporaryFolder folder;
  std::string path = writeFile(folder / "bad.bin", shard(countingTokens(4000)));
  DataSpec spec = tokenSpec(path, 2, 10, 4000);
  spec.shuffle = false;
  auto loader = open(spec);
  ASSERT_TRUE(loader->next().isOk());
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(1024 + 2 * 3000);
  file.write("\xff\xff", 2);
  file.close();
  Result<const Batch *> batch = loader->next();
  while (batch.isOk() && *batch)
    batch = loader->next();
  expectError(batch.status(), ExitCode::BadData, {"bad.bin", "token 3000", "65535"});
  expectError(loader->next().status(), ExitCode::BadData, {"token 3000"});
  ASSERT_TRUE(loader->seek({}).isOk());
  EXPECT_TRUE(loader->next().isOk());
}

TEST(TokenData, RefusesBrokenFiles) {
  TemporaryFolder folder;
  auto error = [&](const std::string &content, int64_t vocabulary = 50257) {
    return errorOf(tokenSpec(writeFile(folder / "x", content), 1, 4, vocabulary));
  };
  std::string good = shard(countingTokens(20));
  EXPECT_TRUE(error(good).isOk());
  expectError(error(""), ExitCode::BadData, {"/x", "empty"});
  expectError(error("some text"), ExitCode::BadData, {"/x", "50257", "tokenize"});
  expectError(error("abcd", 256), ExitCode::BadData, {"/x", "4 tokens", "5"});
  EXPECT_TRUE(error("abcde", 256).isOk());
  expectError(error(good.substr(0, 1000)), ExitCode::BadData, {"/x", "truncated", "1000"});
  expectError(error(good.substr(0, good.size() - 1)), ExitCode::BadData, {"/x", "truncated", "20 tokens", "39 bytes"});
  expectError(error(good + "z"), ExitCode::BadData, {"/x", "too long"});
  expectError(error(shard({})), ExitCode::BadData, {"/x", "no tokens"});
  std::string other = good;
  other[4] = 7;
  expectError(error(other), ExitCode::BadData, {"/x", "version 7"});
  std::string huge = good;
  huge.replace(8, 4, "\xff\xff\xff\xff");
  expectError(error(huge), ExitCode::BadData, {"/x", "truncated", "4294967295"});

  expectError(errorOf(tokenSpec(folder / "nowhere", 1, 4)), ExitCode::MissingInput, {"nowhere"});
  expectError(errorOf(tokenSpec(folder.path(), 1, 4)), ExitCode::MissingInput, {folder.path()});
  expectError(errorOf(tokenSpec((folder / "x") + ",", 1, 4, 50257)), ExitCode::BadData, {});
}

TEST(TokenData, RefusesSpecsThatDoNotFit) {
  TemporaryFolder folder;
  DataSpec good = tokenSpec(writeFile(folder / "x", countingText(100)), 2, 4);
  auto expectBad = [&](auto change, const std::string &part) {
    DataSpec spec = good;
    change(spec);
    expectError(errorOf(spec), ExitCode::BadConfig, {part});
  };
  expectBad([](DataSpec &spec) { spec.batch = 0; }, "batch of 0");
  expectBad([](DataSpec &spec) { spec.worldSize = int64_t{1} << 60; }, "1152921504606846976 ranks");
  expectBad([](DataSpec &spec) { spec.rank = 1; }, "rank 1");
  expectBad([](DataSpec &spec) { spec.context = 0; }, "context");
  expectBad([](DataSpec &spec) { spec.context = 8; }, "'tokens'");
  expectBad([](DataSpec &spec) { spec.inputs[1].type = ElementType::F32; }, "'labels'");
  expectBad([](DataSpec &spec) { spec.inputs[1].bytes = 33; }, "'labels' has 33 bytes");
  expectBad([](DataSpec &spec) { spec.inputs[1].type = static_cast<ElementType>(99); }, "'labels'");
  expectBad([](DataSpec &spec) { spec.inputs.pop_back(); }, "has 1");
  expectBad([](DataSpec &spec) { spec.ignoreIndex = int64_t{1} << 40; }, "ignore_index");
}

TEST(TokenData, BatchesStayWhileTheWorkerRunsAhead) {
  TemporaryFolder folder;
  auto loader = open(tokenSpec(writeFile(folder / "text", countingText(250)), 2, 8));
  const Batch *held = *loader->next();
  std::vector<int32_t> before = values<int32_t>(held->find("tokens"));
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_EQ(values<int32_t>(held->find("tokens")), before);
  double waited = loader->waitSeconds();
  ASSERT_TRUE(loader->next().isOk());
  EXPECT_EQ(loader->waitSeconds(), waited) << "the next batch should have been ready";
}

TEST(TokenData, StopsAtAnyMoment) {
  TemporaryFolder folder;
  DataSpec spec = tokenSpec(writeFile(folder / "text", countingText(250)), 2, 8);
  for (int i = 0; i < 50; ++i) {
    auto loader = open(spec);
    for (int j = 0; j < i % 4; ++j)
      ASSERT_TRUE(loader->next().isOk());
    if (i % 2) {
      ASSERT_TRUE(loader->seek({3, 1}).isOk());
    }
  }
}

} // namespace
} // namespace tapeout::rt
