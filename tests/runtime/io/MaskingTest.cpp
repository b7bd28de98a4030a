// Masked language models: how often tokens are hidden, and that nothing but (seed, epoch, sample, position) decides.
#include "runtime/io/DataLoader.h"
#include "runtime/io/Masking.h"
#include "tests/runtime/io/TestFiles.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <set>

namespace tapeout::rt {
namespace {

using namespace test;

constexpr int64_t kContext = 10;

std::string letters(size_t size) {
  std::string text(size, '\0');
  for (size_t i = 0; i < size; ++i)
    text[i] = static_cast<char>('a' + i % 26);
  return text;
}

DataSpec maskedSpec(const std::string &path, int64_t batch, bool shuffle = true) {
  DataSpec spec = tokenSpec(path, batch, kContext, 257);
  spec.task = DataTask::MaskedLanguageModel;
  spec.maskToken = 256;
  spec.shuffle = shuffle;
  return spec;
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

using Pair = std::pair<std::vector<int32_t>, std::vector<int32_t>>; // tokens, labels

void append(Pair &all, DataLoader &loader) {
  Result<const Batch *> batch = loader.next();
  ASSERT_TRUE(batch.isOk()) << batch.status().message();
  ASSERT_NE(*batch, nullptr);
  for (int32_t token : values<int32_t>((*batch)->find("tokens")))
    all.first.push_back(token);
  for (int32_t label : values<int32_t>((*batch)->find("labels")))
    all.second.push_back(label);
}

Pair read(const DataSpec &spec, int batches) {
  auto loader = open(spec);
  Pair all;
  for (int i = 0; i < batches; ++i)
    append(all, *loader);
  return all;
}

// Four standard deviations of a binomial share.
void expectShare(double count, double of, double share) {
  EXPECT_NEAR(count / of, share, 4 * std::sqrt(share * (1 - share) / of));
}

TEST(Masking, HidesTheSharesOfBert) {
  constexpr uint32_t kVocabulary = 1000, kMask = 999, kToken = 5;
  Masking masking(1, kVocabulary, kMask);
  constexpr int kSamples = 2000, kPositions = 100;
  double chosen = 0, hidden = 0, kept = 0, replaced = 0;
  std::map<uint32_t, int> replacements;
  for (int sample = 0; sample < kSamples; ++sample)
    for (uint32_t position = 0; position < kPositions; ++position) {
      Masking::Position seen = masking(0, sample, position, kToken);
      if (!seen.isChosen) {
        ASSERT_EQ(seen.shown, kToken);
        continue;
      }
      ASSERT_LT(seen.shown, kVocabulary);
      ++chosen;
      hidden += seen.shown == kMask;
      kept += seen.shown == kToken;
      if (seen.shown != kMask && seen.shown != kToken) {
        ++replaced;
        ++replacements[seen.shown];
      }
    }
  expectShare(chosen, kSamples * kPositions, 0.15);
  expectShare(hidden, chosen, 0.8 + 0.1 / kVocabulary);
  expectShare(kept, chosen, 0.1 + 0.1 / kVocabulary);
  expectShare(replaced, chosen, 0.1 * (kVocabulary - 2) / kVocabulary);
  EXPECT_GT(replacements.size(), 900u);
  for (auto [token, count] : replacements)
    EXPECT_LT(count, 20) << token;
}

TEST(Masking, DependsOnItsKeysOnly) {
  auto pattern = [](uint64_t seed, uint64_t epoch, uint64_t sample) {
    Masking masking(seed, 257, 256);
    std::vector<uint32_t> shown;
    for (uint32_t position = 0; position < 200; ++position)
      shown.push_back(masking(epoch, sample, position, 7).shown);
    return shown;
  };
  EXPECT_EQ(pattern(1, 2, 3), pattern(1, 2, 3));
  EXPECT_NE(pattern(1, 2, 3), pattern(2, 2, 3));
  EXPECT_NE(pattern(1, 2, 3), pattern(1, 3, 3));
  EXPECT_NE(pattern(1, 2, 3), pattern(1, 2, 4));
  EXPECT_NE(pattern(1, 2, 3), pattern(1, 2, 3 + (uint64_t{1} << 32)));
}

TEST(MaskedData, LabelsAreTheHiddenTokens) {
  TemporaryFolder folder;
  auto [tokens, labels] = read(maskedSpec(writeFile(folder / "text", letters(2600)), 4), 50);
  int hidden = 0;
  for (size_t i = 0; i < tokens.size(); ++i) {
    if (labels[i] == -100) {
      ASSERT_LT(tokens[i], 256);
      continue;
    }
    hidden += tokens[i] == 256;
    if (i % kContext + 1 < kContext && labels[i + 1] == -100) { // the alphabet goes on: the label is what was there
      ASSERT_EQ((labels[i] - 'a' + 1) % 26, tokens[i + 1] - 'a');
    }
  }
  EXPECT_GT(hidden, 100);
}

TEST(MaskedData, DoesNotDependOnBatchSizeOrRankCount) {
  TemporaryFolder folder;
  std::string path = writeFile(folder / "text", letters(503));
  Pair expected = read(maskedSpec(path, 1), 120);
  for (auto [batch, ranks] : {std::pair{12, 1}, {4, 3}, {20, 2}}) {
    Pair joined;
    std::vector<std::unique_ptr<DataLoader>> loaders;
    DataSpec spec = maskedSpec(path, batch);
    spec.worldSize = ranks;
    for (spec.rank = 0; spec.rank < ranks; ++spec.rank)
      loaders.push_back(open(spec));
    for (int step = 0; step < 120 / (batch * ranks); ++step)
      for (auto &rank : loaders)
        append(joined, *rank);
    EXPECT_EQ(joined, expected) << "batch " << batch << ", ranks " << ranks;
  }
}

TEST(MaskedData, ChangesFromEpochToEpochButNotInEvaluation) {
  TemporaryFolder folder;
  std::string path = writeFile(folder / "text", letters(kContext)); // one sample
  auto [tokens, labels] = read(maskedSpec(path, 1), 30);
  std::set<std::vector<int32_t>> masks;
  for (size_t i = 0; i < labels.size(); i += kContext)
    masks.insert({labels.begin() + i, labels.begin() + i + kContext});
  EXPECT_GT(masks.size(), 10u);

  std::string longer = writeFile(folder / "longer", letters(500));
  DataSpec spec = maskedSpec(longer, 50, /*shuffle=*/false);
  Pair first = read(spec, 1);
  spec.seed = 99; // another run
  EXPECT_EQ(read(spec, 1), first);
}

TEST(MaskedData, UsesEveryWindow) {
  TemporaryFolder folder;
  auto loader = open(maskedSpec(writeFile(folder / "text", letters(5 * kContext)), 1, /*shuffle=*/false));
  EXPECT_EQ(loader->samplesInEpoch(0), 5u); // no token is needed behind the last
}

TEST(MaskedData, ReadsBytesOnlyIfNoneOfThemIsTheMask) {
  TemporaryFolder folder;
  DataSpec spec = maskedSpec(writeFile(folder / "text", letters(100)), 1);
  spec.maskToken = 103;
  expectError(errorOf(spec), ExitCode::BadData, {"text", "a mask token from 256 on", "103"});
  spec.maskToken = 257;
  expectError(errorOf(spec), ExitCode::BadConfig, {"mask token 257", "vocabulary of 257"});
  spec.maskToken = 256;
  EXPECT_TRUE(errorOf(spec).isOk());
  spec.dataPath = writeFile(folder / "short", letters(kContext - 1));
  expectError(errorOf(spec), ExitCode::BadData, {"short", "9 tokens", "10 (the context)"});
  spec.dataPath = writeFile(folder / "shard", shard(std::vector<uint16_t>(50, 3)));
  spec.maskToken = 103;
  EXPECT_TRUE(errorOf(spec).isOk());
}

} // namespace
} // namespace tapeout::rt
