// The transformers beside GPT as executables: each trains like the interpreter, learns, and keeps the promises of bits
// and memory.
#include "tests/e2e/Hash.h"
#include "tests/e2e/Process.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <numeric>
#include <sstream>

namespace tapeout::e2e {
namespace {

/// A model with extents that no vector width divides, its data and the options it is compiled with.
struct Case {
  const char *model, *sizes, *options, *data;
};
const Case kLlama = {"llama", "--layers 2 --heads 6 --kv-heads 2 --width 36 --hidden 50 --context 13", "--batch 4",
                     "--data @text"};
const Case kBert = {"bert", "--layers 2 --heads 3 --width 36 --context 13 --dropout 0.1", "--batch 12 --lr 5e-3",
                    "--data @text"};
const Case kGpt = {"gpt", "--layers 2 --heads 3 --width 36 --context 13 --dropout 0.1", "--batch 4", "--data @text"};
const Case kVit = {"vit-b16", "--layers 2 --heads 3 --width 36 --image 12 --patch 4 --classes 5",
                   "--batch 10 --label-smoothing 0.1", "--data @images.npy --labels @labels.npy"};

class Fixture : public testing::Test {
protected:
  void SetUp() override {
    std::string pattern = testing::TempDir() + "tapeout-e2e-XXXXXX";
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
    writeText();
    writeImages();
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  void writeText() {
    std::string text;
    for (int i = 0; i < 20000; ++i)
      text += "the quick brown fox jumps over the lazy dog. "[hashWord(1, i / 16) % 8 + i % 16];
    std::ofstream(folder_ + "/text", std::ios::binary) << text;
  }

  /// Noise in red, green and blue, of which the class brightens one or two.
  void writeImages() {
    std::string images = header("|u1", fmt::format("{}, 3, 12, 12", kSamples));
    std::string labels = header("<i4", fmt::format("{},", kSamples));
    for (int i = 0; i < kSamples; ++i) {
      int32_t label = hashWord(2, i) % 5;
      labels.append(reinterpret_cast<const char *>(&label), sizeof label);
      for (int pixel = 0; pixel < 3 * 144; ++pixel) {
        int colour = pixel / 144;
        bool isBright = colour == label % 3 || (label >= 3 && colour == (label + 1) % 3);
        images += static_cast<char>(hashWord(3, i * 432 + pixel) % 128 + (isBright ? 100 : 0));
      }
    }
    std::ofstream(folder_ + "/images.npy", std::ios::binary) << images;
    std::ofstream(folder_ + "/labels.npy", std::ios::binary) << labels;
  }
  static std::string header(const std::string &type, const std::string &shape) {
    std::string text = "{'descr': '" + type + "', 'fortran_order': False, 'shape': (" + shape + "), }";
    text.resize(117, ' ');
    return std::string("\x93NUMPY\x01\x00\x76\x00", 10) + text + '\n';
  }

  /// Words separated by spaces; "@name" is a file of the test.
  Outcome run(const std::string &text) {
    std::vector<std::string> words;
    std::istringstream stream(text);
    for (std::string word; stream >> word;)
      words.push_back(word[0] == '@' ? folder_ + "/" + word.substr(1) : word);
    Outcome outcome = Process(words, folder_ + "/last").wait();
    EXPECT_EQ(outcome.code, 0) << text << "\n" << outcome.out << outcome.error;
    return outcome;
  }
  void compile(const Case &c) {
    run(fmt::format("{} model {} {} -o @m.tape", TAPEOUT_BINARY, c.model, c.sizes));
    run(fmt::format("{} compile @m.tape -o @m {}", TAPEOUT_BINARY, c.options));
  }

  std::string get(const std::string &name) const { return readFile(folder_ + "/" + name); }
  static std::vector<double> losses(const std::string &lines) {
    std::vector<double> values;
    std::istringstream stream(lines);
    for (std::string line; std::getline(stream, line);)
      if (line.starts_with("{"))
        values.push_back(nlohmann::json::parse(line).at("loss"));
    return values;
  }

  static constexpr int kSamples = 200;
  std::string folder_;
};

class TransformersTest : public Fixture, public testing::WithParamInterface<const Case *> {};

TEST_P(TransformersTest, TrainsLikeTheInterpreter) {
  const Case &c = *GetParam();
  compile(c);
  run(fmt::format("@m {} --steps 10 --log-dir @log", c.data));
  Outcome interpreted =
      run(fmt::format("{} interpret @m.tape {} {} --steps 10 --precision fp32", TAPEOUT_BINARY, c.options, c.data));
  std::vector<double> actual = losses(get("log/metrics.jsonl")), expected = losses(interpreted.out);
  ASSERT_EQ(actual.size(), 10u);
  ASSERT_EQ(expected.size(), 10u);
  for (size_t i = 0; i < 10; ++i)
    EXPECT_NEAR(actual[i], expected[i], 1e-5 * expected[i]) << "loss of step " << i + 1;
}

TEST_P(TransformersTest, Learns) {
  const Case &c = *GetParam();
  compile(c);
  run(fmt::format("@m {} --steps 200 --log-dir @log", c.data));
  std::vector<double> all = losses(get("log/metrics.jsonl"));
  ASSERT_EQ(all.size(), 200u);
  double first = std::accumulate(all.begin(), all.begin() + 20, 0.0);
  double last = std::accumulate(all.end() - 20, all.end(), 0.0);
  EXPECT_LT(last, 0.75 * first);
}

TEST_P(TransformersTest, HasTheSameBitsWithoutFusionAndForAnyThreads) {
  const Case &c = *GetParam();
  compile(c);
  run(fmt::format("{} compile @m.tape -o @unfused --no-fusion {}", TAPEOUT_BINARY, c.options));
  run(fmt::format("@m {} --steps 10 --threads 1 --export @one", c.data));
  run(fmt::format("@m {} --steps 10 --threads 4 --check-memory --export @four", c.data));
  run(fmt::format("@unfused {} --steps 10 --export @plain", c.data));
  ASSERT_GT(get("one").size(), 10000u);
  EXPECT_EQ(get("one"), get("four"));
  EXPECT_EQ(get("one"), get("plain"));
}

INSTANTIATE_TEST_SUITE_P(All, TransformersTest, testing::Values(&kLlama, &kBert, &kVit),
                         [](const auto &info) { return std::string(info.param->model).substr(0, 3); });

using TransformerTest = Fixture;

TEST_F(TransformerTest, EveryWayToFuseGivesTheSameBits) {
  compile(kGpt);
  run("@m --data @text --steps 10 --export @usual");
  for (const char *options : {"--no-fusion", "--skip-pass fuse-epilogues", "--skip-pass fuse-multi-tensor"}) {
    run(fmt::format("{} compile @m.tape -o @other {} {}", TAPEOUT_BINARY, kGpt.options, options));
    run("@other --data @text --steps 10 --export @weights");
    EXPECT_EQ(get("usual"), get("weights")) << options;
  }
}

TEST_F(TransformerTest, LlamaGeneratesTheSameTextTwice) {
  compile(kLlama);
  run("@m --data @text --steps 100 --export @w");
  std::string first = run("@m --init @w --generate quick --tokens 30").out;
  EXPECT_TRUE(first.starts_with("quick")) << first;
  EXPECT_GT(first.size(), 30u);
  EXPECT_EQ(run("@m --init @w --generate quick --tokens 30").out, first);
}

// Dropout is off, and the mask of an evaluation depends on no seed and no batch.
TEST_F(TransformerTest, BertIsEvaluatedOnTheSameTokensEveryTime) {
  compile(kBert);
  run(fmt::format("{} compile @m.tape -o @other --batch 7", TAPEOUT_BINARY));
  run("@m --data @text --steps 20 --export @w");
  std::ofstream(folder_ + "/short", std::ios::binary) << get("text").substr(0, 1000);
  auto evaluate = [&](const std::string &program, int seed) {
    std::string out = run(fmt::format("@{} --init @w --eval-data @short --seed {}", program, seed)).out;
    return std::stod(out.substr(out.rfind(' ')));
  };
  double loss = evaluate("m", 1);
  EXPECT_EQ(evaluate("m", 2), loss);
  EXPECT_NEAR(evaluate("other", 1), loss, 2e-6);
}

} // namespace
} // namespace tapeout::e2e
