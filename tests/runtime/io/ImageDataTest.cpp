// Folders of images: decoding, resizing, cropping, order, hostile files.
#include "runtime/io/DataLoader.h"
#include "runtime/io/ImageTransform.h"
#include "tests/runtime/io/TestFiles.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <png.h>
#include <turbojpeg.h>
#include <zlib.h>

#include <cmath>

namespace tapeout::rt {
namespace {

using test::TemporaryFolder;

/// A smooth picture: JPEG keeps it nearly as it is.
Image gradient(int64_t width, int64_t height, int64_t shift = 0) {
  Image image{width, height, {}};
  for (int64_t y = 0; y < height; ++y)
    for (int64_t x = 0; x < width; ++x)
      for (int64_t value : {10 + 200 * x / width, 20 + 180 * y / height, 30 + shift})
        image.pixels.push_back(static_cast<uint8_t>(value));
  return image;
}

void writePng(const std::string &path, const Image &image, uint32_t format = PNG_FORMAT_RGB) {
  png_image png = {};
  png.version = PNG_IMAGE_VERSION;
  png.width = image.width;
  png.height = image.height;
  png.format = format;
  ASSERT_TRUE(png_image_write_to_file(&png, path.c_str(), 0, image.pixels.data(), 0, nullptr)) << png.message;
}

void writeJpeg(const std::string &path, const Image &image, int quality = 95) {
  tjhandle encoder = tjInitCompress();
  unsigned char *bytes = nullptr;
  unsigned long size = 0;
  ASSERT_EQ(tjCompress2(encoder, image.pixels.data(), image.width, 0, image.height, TJPF_RGB, &bytes, &size, TJSAMP_444, quality, 0), 0);
  test::writeFile(path, std::string(reinterpret_cast<char *>(bytes), size));
  tjFree(bytes);
  tjDestroy(encoder);
}

/// Big endian, as in the head of a PNG.
void put32(std::string &bytes, size_t at, uint32_t value) {
  for (int i = 0; i < 4; ++i)
    bytes[at + i] = static_cast<char>(value >> (24 - 8 * i));
}

void expectBad(const Status &status, const std::string &path, const std::string &part) {
  EXPECT_EQ(status.code(), ExitCode::BadData) << status.message();
  EXPECT_TRUE(status.message().starts_with(path)) << status.message();
  EXPECT_NE(status.message().find(part), std::string::npos) << status.message();
}

TEST(ImageTest, ReadsWhatWasWritten) {
  TemporaryFolder folder;
  Image image = gradient(23, 17);
  writePng(folder / "a.png", image);
  Result<Image> png = readImage(folder / "a.png");
  ASSERT_TRUE(png.isOk()) << png.status().message();
  EXPECT_EQ(png->width, 23);
  EXPECT_EQ(png->height, 17);
  EXPECT_EQ(png->pixels, image.pixels);
  writeJpeg(folder / "a.JPEG", image);
  Result<Image> jpeg = readImage(folder / "a.JPEG");
  ASSERT_TRUE(jpeg.isOk()) << jpeg.status().message();
  ASSERT_EQ(jpeg->pixels.size(), image.pixels.size());
  for (size_t i = 0; i < image.pixels.size(); ++i)
    EXPECT_NEAR(jpeg->pixels[i], image.pixels[i], 4) << i;
}

TEST(ImageTest, GreyBecomesColourAndTransparencyIsLeftOut) {
  TemporaryFolder folder;
  writePng(folder / "grey.png", Image{2, 1, {7, 250}}, PNG_FORMAT_GRAY);
  EXPECT_EQ(readImage(folder / "grey.png")->pixels, (std::vector<uint8_t>{7, 7, 7, 250, 250, 250}));
  writePng(folder / "alpha.png", Image{2, 1, {1, 2, 3, 255, 4, 5, 6, 0}}, PNG_FORMAT_RGBA);
  EXPECT_EQ(readImage(folder / "alpha.png")->pixels, (std::vector<uint8_t>{1, 2, 3, 4, 5, 6}));
}

TEST(ImageTest, HostileFilesGetASentence) {
  TemporaryFolder folder;
  writeJpeg(folder / "good.jpg", gradient(64, 48));
  writePng(folder / "good.png", gradient(64, 48));
  std::string jpeg = test::readAll(folder / "good.jpg"), png = test::readAll(folder / "good.png");
  auto expect = [&](const std::string &name, const std::string &bytes, const std::string &part) {
    Result<Image> image = readImage(test::writeFile(folder / name, bytes));
    ASSERT_FALSE(image.isOk()) << name;
    expectBad(image.status(), folder / name, part);
  };
  for (size_t size : {size_t{3}, size_t{100}, jpeg.size() / 2, jpeg.size() - 2})
    expect("cut.jpg", jpeg.substr(0, size), "damaged");
  for (size_t size : {size_t{8}, size_t{30}, png.size() / 2, png.size() - 20})
    expect("cut.png", png.substr(0, size), "damaged");
  expect("empty.png", "", "neither a JPEG nor a PNG");
  expect("text.jpg", "hello", "neither a JPEG nor a PNG");
  expect("other.jpg", png, "is a PNG image");
  expect("other.png", jpeg, "is a JPEG image");
  std::string bits = png;
  bits[png.size() / 2] ^= 1;
  expect("bits.png", bits, "damaged");
  // Sizes stand at fixed places: bytes 16 to 23 of a PNG; the frame header of a JPEG is found by its marker.
  std::string huge = png;
  put32(huge, 16, 1000000);
  put32(huge, 20, 1000000);
  put32(huge, 29, crc32(0, reinterpret_cast<const unsigned char *>(huge.data()) + 12, 17));
  expect("huge.png", huge, "1000000 x 1000000 pixels");
  huge = jpeg;
  size_t frame = huge.find("\xff\xc0");
  ASSERT_NE(frame, std::string::npos);
  huge[frame + 5] = huge[frame + 6] = huge[frame + 7] = huge[frame + 8] = '\xf0';
  expect("huge.jpg", huge, "61680 x 61680 pixels");
  EXPECT_EQ(readImage(folder / "missing.png").status().code(), ExitCode::MissingInput);
}

/// Numbers of torch.nn.functional.interpolate(mode="bilinear", align_corners=False, antialias=True), PyTorch 1.13.
TEST(ImageTransformTest, ResizesAsTorchDoes) {
  Image image{5, 4, {}};
  for (int i = 0; i < 20; ++i)
    for (int c = 0; c < 3; ++c)
      image.pixels.push_back(static_cast<uint8_t>((i * i * 7 + 40 * c) % 251));
  auto resized = [&](int64_t width, int64_t height) { return resize(image, {width, height, 0, 0, width, height}); };
  const std::vector<float> smaller = {66.2449f, 63.0794f, 111.6123f, 103.4286f, 48.3016f, 84.7143f};
  const std::vector<float> larger = {
      0.0000f, 4.0000f, 13.0000f, 28.0000f, 53.0000f, 84.0000f, 112.0000f, 87.5000f, 39.7857f, 20.0000f,
      60.0000f, 110.0000f, 112.2143f, 88.5000f, 178.8333f, 86.0714f, 33.8810f, 77.3333f, 160.6667f, 142.4286f,
      73.6667f, 194.1667f, 128.0714f, 61.4048f, 18.6667f, 135.3334f, 150.4286f, 108.3333f, 133.5000f, 94.0714f,
      48.7857f, 9.5000f, 69.8572f, 82.4286f, 67.0000f, 69.0000f, 49.5714f, 29.2857f, 15.0000f, 10.7143f,
      12.4286f, 17.0000f};
  std::vector<float> actual = resized(3, 2);
  for (size_t i = 0; i < smaller.size(); ++i)
    EXPECT_NEAR(actual[i], smaller[i], 1e-3) << i;
  actual = resized(7, 6);
  for (size_t i = 0; i < larger.size(); ++i)
    EXPECT_NEAR(actual[i], larger[i], 1e-3) << i;
}

TEST(ImageTransformTest, ACropIsAPartOfTheWhole) {
  Image image = gradient(40, 31);
  std::vector<float> whole = resize(image, {16, 20, 0, 0, 16, 20});
  for (bool flipped : {false, true}) {
    std::vector<float> part = resize(image, {16, 20, 3, 5, 8, 7, flipped});
    for (int64_t c = 0; c < 3; ++c)
      for (int64_t y = 0; y < 7; ++y)
        for (int64_t x = 0; x < 8; ++x)
          EXPECT_EQ(part[(c * 7 + y) * 8 + x], whole[(c * 20 + y + 5) * 16 + 3 + (flipped ? 7 - x : x)]);
  }
}

TEST(ImageTransformTest, CropsCoverTheModelsInput) {
  Crop crop = centreCrop(gradient(500, 333), 224, 224);
  EXPECT_EQ(crop.resizedHeight, 256);
  EXPECT_EQ(crop.resizedWidth, 384); // 500 * 256 / 333
  EXPECT_EQ(crop.x, 80);
  EXPECT_EQ(crop.y, 16);
  EXPECT_FALSE(crop.flipped);
  for (auto [width, height] : {std::pair<int64_t, int64_t>{1, 300}, {300, 1}, {1, 1}, {7, 9}})
    for (uint32_t word : {0u, 12345u, UINT32_MAX}) {
      Image image = gradient(width, height);
      Crop random = randomCrop(image, 8, 6, std::array{word, word, word, word});
      EXPECT_GE(random.x, 0);
      EXPECT_GE(random.y, 0);
      EXPECT_LE(random.x + 8, random.resizedWidth);
      EXPECT_LE(random.y + 6, random.resizedHeight);
      EXPECT_EQ(random.flipped, word % 2 == 1);
      for (float value : resize(image, random))
        EXPECT_TRUE(value >= 0 && value <= 255.01f) << value;
    }
}

/// Three classes of 4, 0 and 3 images whose blue tells the label and the place.
class ImageFolderTest : public testing::Test {
protected:
  void SetUp() override {
    for (const char *name : {"cat", "ant", "bee"})
      std::filesystem::create_directories(data / name);
    for (int i = 0; i < 4; ++i)
      writePng(data / fmt::format("ant/{}.png", i), gradient(20 + i, 16, i));
    for (int i = 0; i < 3; ++i)
      writeJpeg(data / fmt::format("cat/{}.jpg", i), gradient(30, 20 + i, 100 + i), 100);
    test::writeFile(data / ".DS_Store", "");
    test::writeFile(data / "cat/.hidden", "");
    spec.dataPath = data.path();
    spec.task = DataTask::Classification;
    spec.vocabulary = 3;
    setBatch(2);
  }
  void setBatch(int64_t batch, int64_t channels = 3) {
    spec.batch = batch;
    spec.inputs = {{"images", ElementType::F32, static_cast<uint64_t>(batch * channels * 8 * 8 * 4), {batch, channels, 8, 8}},
                   {"labels", ElementType::I64, static_cast<uint64_t>(batch * 8), {batch}}};
  }

  std::unique_ptr<DataLoader> open() {
    Result<std::unique_ptr<DataLoader>> loader = DataLoader::create(spec);
    EXPECT_TRUE(loader.isOk()) << loader.status().message();
    return loader.isOk() ? std::move(*loader) : nullptr;
  }
  /// Images and labels of the next `batches` batches as bytes.
  static std::string take(DataLoader &loader, int batches) {
    std::string bytes;
    for (int i = 0; i < batches; ++i) {
      Result<const Batch *> batch = loader.next();
      EXPECT_TRUE(batch.isOk()) << batch.status().message();
      for (const char *name : {"images", "labels"}) {
        std::span<const uint8_t> part = (*batch)->find(name);
        bytes.append(part.begin(), part.end());
      }
    }
    return bytes;
  }
  void expectError(ExitCode code, const std::string &part) {
    Result<std::unique_ptr<DataLoader>> loader = DataLoader::create(spec);
    Status status = loader.isOk() ? (*loader)->next().status() : loader.status();
    EXPECT_EQ(status.code(), code) << status.message();
    EXPECT_NE(status.message().find(part), std::string::npos) << status.message();
  }

  TemporaryFolder data;
  DataSpec spec;
};

TEST_F(ImageFolderTest, EvaluationReadsEveryImageOnceFromTheMiddle) {
  spec.shuffle = false;
  spec.images = {{0, 0, 0}, {1, 1, 1}};
  std::unique_ptr<DataLoader> loader = open();
  EXPECT_EQ(loader->samplesInEpoch(0), 7u);
  EXPECT_EQ(loader->classNames(), (std::vector<std::string>{"ant", "bee", "cat"}));
  EXPECT_NE(loader->description().find("7 images of 3 classes, 8 x 8, mean 0 0 0, deviation 1 1 1"), std::string::npos)
      << loader->description();
  std::vector<int64_t> labels;
  for (int sample = 0; sample < 8; sample += 2) {
    const Batch *batch = *loader->next();
    ASSERT_NE(batch, nullptr);
    auto read = [&](const char *name, size_t index, auto value) {
      std::memcpy(&value, batch->find(name).data() + index * sizeof value, sizeof value);
      return value;
    };
    for (int64_t i = 0; i < 2; ++i) {
      labels.push_back(read("labels", i, int64_t()));
      int blue = sample + i < 4 ? 30 + sample + i : 130 + sample + i - 4;
      float expected = sample + i < 7 ? static_cast<float>(blue) / 255 : 0; // the last one is filling
      EXPECT_NEAR(read("images", (i * 3 + 2) * 64 + 13, float()), expected, 1.5f / 255) << sample + i;
    }
  }
  EXPECT_EQ(labels, (std::vector<int64_t>{0, 0, 0, 0, 2, 2, 2, -100}));
  EXPECT_EQ(*loader->next(), nullptr);
}

TEST_F(ImageFolderTest, TheBatchesDoNotDependOnTheThreads) {
  spec.seed = 5;
  setBatch(5);
  std::string first;
  for (int readers : {1, 2, 7}) {
    spec.readers = readers;
    std::string bytes = take(*open(), 6);
    EXPECT_TRUE(first.empty() || bytes == first) << readers;
    first = bytes;
  }
  spec.seed = 6;
  EXPECT_TRUE(take(*open(), 6) != first);
}

TEST_F(ImageFolderTest, CropsChangeFromEpochToEpochAndGoOnAfterAResume) {
  setBatch(7); // an epoch
  std::unique_ptr<DataLoader> loader = open();
  std::string first = take(*loader, 1);
  LoaderPosition position = loader->position();
  EXPECT_EQ(position, (LoaderPosition{1, 0}));
  std::string second = take(*loader, 1);
  std::unique_ptr<DataLoader> resumed = open();
  ASSERT_TRUE(resumed->seek(position).isOk());
  EXPECT_TRUE(take(*resumed, 1) == second);
  // The same samples, sorted by their bytes, are other crops.
  auto samples = [](const std::string &bytes) {
    std::vector<std::string> images;
    for (size_t i = 0; i < 7; ++i)
      images.push_back(bytes.substr(i * 768, 768));
    std::sort(images.begin(), images.end());
    return images;
  };
  EXPECT_TRUE(samples(first) != samples(second));
}

TEST_F(ImageFolderTest, OneSampleDoesNotDependOnTheBatchItIsIn) {
  setBatch(1);
  std::unique_ptr<DataLoader> ones = open();
  std::string single;
  for (int i = 0; i < 6; ++i)
    single += take(*ones, 1).substr(0, 768);
  setBatch(3);
  std::unique_ptr<DataLoader> threes = open();
  std::string several = take(*threes, 1).substr(0, 3 * 768);
  several += take(*threes, 1).substr(0, 3 * 768);
  EXPECT_TRUE(several == single);
}

TEST_F(ImageFolderTest, GreyModelsReadBrightness) {
  setBatch(1, 1);
  spec.shuffle = false;
  std::unique_ptr<DataLoader> loader = open();
  const Batch *batch = *loader->next();
  float value;
  std::memcpy(&value, batch->find("images").data(), sizeof value);
  EXPECT_GT(value, -1);
  EXPECT_LT(value, 1);
  spec.images.mean = {1, 2, 3};
  expectError(ExitCode::BadConfig, "--image-mean needs 1 numbers");
  spec.images = {{0.5}, {0}};
  expectError(ExitCode::BadConfig, "--image-std is 0");
}

TEST_F(ImageFolderTest, SaysWhatIsWrongWithAFolder) {
  setBatch(7);
  for (int readers : {1, 3}) {
    spec.readers = readers;
    test::writeFile(data / "ant/2.png", "no image");
    test::writeFile(data / "cat/1.jpg", "");
    spec.shuffle = false;
    expectError(ExitCode::BadData, "ant/2.png: the file is neither a JPEG nor a PNG image"); // the first one of the batch
  }
  test::writeFile(data / "bee/notes.txt", "");
  expectError(ExitCode::BadData, "bee/notes.txt: the name does not end in .jpg, .jpeg or .png");
  std::filesystem::remove(data / "bee/notes.txt");
  std::filesystem::create_directory(data / "dog");
  expectError(ExitCode::BadData, "holds 4 folders, but the model has 3 classes");
  std::filesystem::remove(data / "dog");
  test::writeFile(data / "list.csv", "");
  expectError(ExitCode::BadData, "list.csv is no folder");
  std::filesystem::remove(data / "list.csv");
  for (const char *name : {"ant", "cat"}) {
    std::filesystem::remove_all(data / name);
    std::filesystem::create_directory(data / name);
  }
  expectError(ExitCode::BadData, "0 images are no dataset");
}

TEST_F(ImageFolderTest, RefusesModelsThatAreNotForImages) {
  spec.inputs[0].shape = {2, 192};
  expectError(ExitCode::BadConfig, "is not f32 [samples, 3 or 1, height, width]");
  spec.inputs[0].shape = {2, 3, 8, 8};
  spec.inputs[0].type = ElementType::F64;
  spec.inputs[0].bytes *= 2;
  expectError(ExitCode::BadConfig, "is not f32");
  spec.task = DataTask::Regression;
  expectError(ExitCode::BadConfig, "the model is no classifier");
}

} // namespace
} // namespace tapeout::rt
