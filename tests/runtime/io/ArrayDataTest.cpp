#include "runtime/io/DataLoader.h"

#include "tests/runtime/io/TestFiles.h"

#include <gtest/gtest.h>

#include <set>

namespace tapeout::rt {
namespace {

using namespace test;

/// Five images of 2 x 2 uint8 and their classes.
class ArrayData : public testing::Test {
protected:
  DataSpec classifier(int64_t batch, bool shuffle) {
    DataSpec spec;
    spec.dataPath = writeFile(folder_ / "images.npy", npyFile<uint8_t>("|u1", "(5, 2, 2)", images_));
    spec.labelsPath = writeFile(folder_ / "labels.npy", npyFile<int64_t>("<i8", "(5,)", labels_));
    spec.task = DataTask::Classification;
    spec.batch = batch;
    spec.vocabulary = 10;
    spec.inputs = {{"images", ElementType::F32, static_cast<uint64_t>(batch) * 16},
                   {"labels", ElementType::I32, static_cast<uint64_t>(batch) * 4}};
    spec.shuffle = shuffle;
    return spec;
  }

  DataSpec regression(int64_t batch, bool shuffle) {
    DataSpec spec = classifier(batch, shuffle);
    spec.labelsPath = writeFile(folder_ / "targets.npy", npyFile<double>("<f8", "(5, 1)", {0.5, 1.5, 2.5, 3.5, 4.5}));
    spec.task = DataTask::Regression;
    spec.inputs[1] = {"target", ElementType::F32, static_cast<uint64_t>(batch) * 4};
    return spec;
  }

  Status errorOf(const DataSpec &spec) {
    Result<std::unique_ptr<DataLoader>> loader = DataLoader::create(spec);
    return loader.isOk() ? Status::ok() : loader.status();
  }

  TemporaryFolder folder_;
  std::vector<uint8_t> images_ = {0, 51, 255, 3, 1, 0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0, 4, 0, 0, 0};
  std::vector<int64_t> labels_ = {7, 1, 2, -100, 9};
};

TEST_F(ArrayData, GivesScaledImagesAndLabels) {
  auto loader = DataLoader::create(classifier(2, false));
  ASSERT_TRUE(loader.isOk()) << loader.status().message();
  Result<const Batch *> batch = (*loader)->next();
  EXPECT_EQ(values<float>((*batch)->find("images")), (std::vector<float>{0, 0.2f, 1, 3 / 255.0f, 1 / 255.0f, 0, 0, 0}));
  EXPECT_EQ(values<int32_t>((*batch)->find("labels")), (std::vector<int32_t>{7, 1}));
}

TEST_F(ArrayData, FillsUpTheLastBatchOfAnEvaluation) {
  auto loader = DataLoader::create(classifier(3, false));
  ASSERT_TRUE((*loader)->next().isOk());
  const Batch *batch = *(*loader)->next();
  EXPECT_EQ(batch->sampleCount(), 2);
  EXPECT_EQ(values<int32_t>(batch->find("labels")), (std::vector<int32_t>{-100, 9, -100}));
  EXPECT_EQ(values<float>(batch->find("images"))[8], 0);
  EXPECT_EQ(*(*loader)->next(), nullptr);
}

TEST_F(ArrayData, TrainsOnEverySampleInEveryEpoch) {
  auto loader = DataLoader::create(classifier(2, true));
  std::vector<int32_t> labels;
  for (int i = 0; i < 10; ++i)
    for (int32_t label : values<int32_t>((*(*loader)->next())->find("labels")))
      labels.push_back(label);
  for (size_t epoch = 0; epoch < 4; ++epoch)
    EXPECT_EQ(std::set<int32_t>(labels.begin() + static_cast<long>(epoch * 5),
                                labels.begin() + static_cast<long>(epoch * 5 + 5)),
              (std::set<int32_t>{7, 1, 2, -100, 9}));
}

TEST_F(ArrayData, BatchesMayBeLargerThanTheData) {
  auto loader = DataLoader::create(classifier(12, true));
  EXPECT_EQ((*(*loader)->next())->sampleCount(), 12);
  EXPECT_EQ((*loader)->position(), (LoaderPosition{2, 2}));
}

TEST_F(ArrayData, RegressionEvaluatesWholeBatches) {
  auto loader = DataLoader::create(regression(2, false));
  ASSERT_TRUE(loader.isOk()) << loader.status().message();
  EXPECT_EQ((*loader)->samplesInEpoch(0), 4u);
  EXPECT_EQ(values<float>((*(*loader)->next())->find("target")), (std::vector<float>{0.5f, 1.5f}));
  EXPECT_EQ(values<float>((*(*loader)->next())->find("target")), (std::vector<float>{2.5f, 3.5f}));
  EXPECT_EQ(*(*loader)->next(), nullptr);
  expectError(errorOf(regression(6, false)), ExitCode::BadData, {"images.npy", "5 samples", "batch of 6"});
  EXPECT_TRUE(errorOf(regression(6, true)).isOk());
}

TEST_F(ArrayData, ConvertsTypes) {
  DataSpec spec = regression(1, false);
  writeFile(spec.dataPath, npyFile<int32_t>("<i4", "(5, 1)", {-3, 1, 2, 3, 4}));
  writeFile(spec.labelsPath, npyFile<uint8_t>("|u1", "(5,)", {200, 1, 2, 3, 4}));
  spec.inputs = {{"x", ElementType::F64, 8}, {"y", ElementType::F64, 8}};
  auto loader = DataLoader::create(spec);
  ASSERT_TRUE(loader.isOk()) << loader.status().message();
  const Batch *batch = *(*loader)->next();
  EXPECT_EQ(values<double>(batch->find("x")), (std::vector<double>{-3}));
  EXPECT_EQ(values<double>(batch->find("y")), (std::vector<double>{200})) << "only data is scaled";
}

TEST_F(ArrayData, RefusesIntegersThatDoNotFit) {
  DataSpec spec = classifier(1, false);
  writeFile(spec.dataPath, npyFile<int64_t>("<i8", "(5, 1)", {1, 2, int64_t{1} << 31, 3, 4}));
  spec.inputs[0] = {"ids", ElementType::I32, 4};
  auto loader = DataLoader::create(spec);
  ASSERT_TRUE(loader.isOk()) << loader.status().message();
  ASSERT_TRUE((*loader)->next().isOk());
  ASSERT_TRUE((*loader)->next().isOk());
  expectError((*loader)->next().status(), ExitCode::BadData, {"images.npy", "sample 2", "'ids'"});
}

TEST_F(ArrayData, RefusesBadLabelsWithTheirPlace) {
  labels_[3] = 10;
  expectError(errorOf(classifier(2, true)), ExitCode::BadData, {"labels.npy", "label 3", "is 10", "0 to 9"});
  labels_[3] = -1;
  expectError(errorOf(classifier(2, true)), ExitCode::BadData, {"labels.npy", "label 3", "is -1"});
}

TEST_F(ArrayData, RefusesArraysThatDoNotFitTheModel) {
  DataSpec good = classifier(2, true);
  DataSpec spec = good;
  spec.inputs[0].bytes = 2 * 9 * 4;
  expectError(errorOf(spec), ExitCode::BadData, {"images.npy", "4 elements", "'images'", "9"});

  spec = good;
  spec.labelsPath = writeFile(folder_ / "l.npy", npyFile<int64_t>("<i8", "(4,)", {1, 2, 3, 4}));
  expectError(errorOf(spec), ExitCode::BadData, {"images.npy has 5", "l.npy", "4"});
  writeFile(spec.labelsPath, npyFile<float>("<f4", "(5,)", {1, 2, 3, 4, 5}));
  expectError(errorOf(spec), ExitCode::BadData, {"l.npy", "float32", "'labels'", "i32"});
  writeFile(spec.labelsPath, npyFile<int64_t>("<i8", "(0,)", {}));
  expectError(errorOf(spec), ExitCode::BadData, {"l.npy", "empty"});
  writeFile(spec.labelsPath, npyFile<int64_t>("<i8", "()", {1}));
  expectError(errorOf(spec), ExitCode::BadData, {"l.npy", "scalar"});

  spec.labelsPath.clear();
  expectError(errorOf(spec), ExitCode::MissingInput, {"--labels"});
  spec.labelsPath = folder_ / "nowhere.npy";
  expectError(errorOf(spec), ExitCode::MissingInput, {"nowhere.npy"});
}

} // namespace
} // namespace tapeout::rt
