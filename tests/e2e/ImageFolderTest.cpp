// A vision transformer trained on a folder of images, as users do it.
#include "tests/e2e/Hash.h"
#include "tests/e2e/Process.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <png.h>

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <vector>

namespace tapeout::e2e {
namespace {

class ImageFolderTest : public testing::Test {
protected:
  static void SetUpTestSuite() {
    std::string pattern = testing::TempDir() + "tapeout-images-XXXXXX";
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
    writeImages("data");
    expect(0, TAPEOUT_BINARY, "model vit-b16 --image 16 --patch 8 --layers 1 --heads 2 --width 16 --classes 2 -o @vit.tape");
    expect(0, TAPEOUT_BINARY, "compile @vit.tape --batch 5 --lr 0.01 -o @vit");
  }
  static void TearDownTestSuite() { std::filesystem::remove_all(folder_); }

  /// Two classes of nine images of different sizes, dark and bright.
  static void writeImages(const std::string &name) {
    for (uint32_t label = 0; label < 2; ++label) {
      std::string folder = folder_ + "/" + name + (label == 0 ? "/dark" : "/light");
      std::filesystem::create_directories(folder);
      for (uint32_t i = 0; i < 9; ++i) {
        png_image png = {};
        png.version = PNG_IMAGE_VERSION;
        png.format = PNG_FORMAT_RGB;
        png.width = 14 + 3 * i;
        png.height = 30 - i;
        std::vector<uint8_t> pixels(PNG_IMAGE_SIZE(png));
        for (size_t p = 0; p < pixels.size(); ++p)
          pixels[p] = static_cast<uint8_t>(hashWord(label * 100 + i, p) % 100 + 100 * label);
        std::string path = fmt::format("{}/{}.png", folder, i);
        ASSERT_TRUE(png_image_write_to_file(&png, path.c_str(), 0, pixels.data(), 0, nullptr)) << png.message;
      }
    }
  }

  /// "@name" is a file of the folder.
  static Outcome run(const std::string &program, const std::string &text) {
    std::vector<std::string> words = {program};
    std::istringstream stream(text);
    for (std::string word; stream >> word;)
      words.push_back(word[0] == '@' ? folder_ + "/" + word.substr(1) : word);
    return Process(words, folder_ + "/last").wait();
  }
  static void expect(int code, const std::string &program, const std::string &text, const std::string &part = "") {
    Outcome outcome = run(program, text);
    EXPECT_EQ(outcome.code, code) << text << "\n" << outcome.out << outcome.error;
    EXPECT_NE((code == 0 ? outcome.out : outcome.error).find(part), std::string::npos) << text << "\n" << outcome.out << outcome.error;
  }
  static void train(int code, const std::string &text, const std::string &part = "") { expect(code, folder_ + "/vit", text, part); }
  static std::string get(const std::string &name) { return readFile(folder_ + "/" + name); }

  static inline std::string folder_;
};

TEST_F(ImageFolderTest, LearnsTheClasses) {
  train(0, "--data @data --steps 60 --eval-data @data --export @learned", "data: 18 images of 2 classes, 16 x 16, mean 0.485");
  Outcome outcome = run(folder_ + "/vit", "--init @learned --eval-data @data");
  ASSERT_EQ(outcome.code, 0) << outcome.error;
  EXPECT_LT(std::stod(outcome.out.substr(outcome.out.rfind(' '))), 0.35) << outcome.out; // 0.69 before
}

TEST_F(ImageFolderTest, ThreadsAndAResumeDoNotChangeABit) {
  train(0, "--data @data --steps 12 --threads 1 --data-threads 1 --export @one");
  train(0, "--data @data --steps 12 --threads 2 --data-threads 3 --export @three");
  EXPECT_FALSE(get("one").empty());
  EXPECT_TRUE(get("one") == get("three"));
  train(0, "--data @data --steps 12 --checkpoint-dir @state --checkpoint-every 5 --export @whole");
  std::filesystem::remove_all(folder_ + "/state/step-00000012");
  std::filesystem::remove(folder_ + "/state/latest");
  train(0, "--data @data --steps 12 --checkpoint-dir @state --resume --export @resumed", "resumed after step 10");
  EXPECT_TRUE(get("one") == get("whole"));
  EXPECT_TRUE(get("one") == get("resumed"));
  train(0, "--data @data --steps 12 --image-mean 0,0,0 --export @other");
  EXPECT_TRUE(get("one") != get("other"));
}

TEST_F(ImageFolderTest, SaysWhichFileIsWrong) {
  writeImages("bad");
  std::ofstream(folder_ + "/bad/light/4.png", std::ios::binary) << get("data/light/4.png").substr(0, 200);
  train(65, "--data @bad --steps 50", "bad/light/4.png: the PNG image is damaged");
  std::filesystem::rename(folder_ + "/bad/light", folder_ + "/bad/bright");
  train(65, "--data @data --eval-data @bad --steps 1", "other names");
  train(2, "--data @data --labels @vit.tape --steps 1", "--labels: the labels of a folder of images");
  train(78, "--data @data --steps 1 --image-std 1", "--image-std needs 3 numbers");
  train(66, "--data @none --steps 1", "labels");
}

} // namespace
} // namespace tapeout::e2e
