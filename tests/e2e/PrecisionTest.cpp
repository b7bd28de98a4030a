// Mixed precision as users meet it: executables in bf16 and fp16 against fp32, the interpreter and themselves.
#include "tests/e2e/Hash.h"
#include "tests/e2e/Process.h"
#include "tests/runtime/io/TestFiles.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <unistd.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <regex>
#include <sstream>

namespace tapeout::e2e {
namespace {

constexpr char kTapeout[] = TAPEOUT_BINARY;

class PrecisionTest : public testing::Test {
protected:
  static void SetUpTestSuite() {
    std::string pattern = testing::TempDir() + "tapeout-precision-XXXXXX";
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
    std::string text;
    for (int i = 0; i < 20000; ++i)
      text += "the quick brown fox jumps over the lazy dog. "[hashWord(1, i / 16) % 8 + i % 16];
    std::ofstream(folder_ + "/text", std::ios::binary) << text;
    // Extents that no vector width divides.
    succeed(kTapeout, "model gpt --layers 2 --heads 3 --width 36 --context 13 --vocab 256 --dropout 0.1 -o gpt.tape");
    succeed(kTapeout, "model bert --layers 1 --heads 2 --width 36 --context 4 --vocab 257 -o bert.tape"); // its head has a bias
  }
  static void TearDownTestSuite() { std::filesystem::remove_all(folder_); }

  /// Words separated by spaces; those with a known ending are files of the folder.
  static Outcome run(const std::string &program, const std::string &text) {
    std::vector<std::string> words = {program};
    std::istringstream stream(text);
    for (std::string word; stream >> word;)
      words.push_back(std::filesystem::exists(folder_ + "/" + word) || word.ends_with(".tape") || word.starts_with("out-")
                          ? folder_ + "/" + word
                          : word);
    return Process(words, folder_ + "/last").wait();
  }
  static std::string succeed(const std::string &program, const std::string &text) {
    Outcome outcome = run(program, text);
    EXPECT_EQ(outcome.code, 0) << program << " " << text << "\n" << outcome.error;
    return outcome.out;
  }
  static void compile(const std::string &options, const std::string &name = "out-model") {
    succeed(kTapeout, fmt::format("compile gpt.tape -o {} {} {}", name, kOptions, options));
  }

  /// Trains and returns `key` of every step.
  static std::vector<double> train(const std::string &options, const char *key = "loss", const std::string &name = "out-model") {
    succeed(folder_ + "/" + name, fmt::format("--data text --log-dir out-log {}", options));
    return column(readFile(folder_ + "/out-log/metrics.jsonl"), key);
  }
  static std::vector<double> column(const std::string &lines, const char *key) {
    std::vector<double> values;
    std::istringstream stream(lines);
    for (std::string line; std::getline(stream, line);)
      if (line.starts_with("{")) {
        nlohmann::json value = nlohmann::json::parse(line).at(key);
        values.push_back(value.is_null() ? NAN : value.get<double>());
      }
    return values;
  }
  static std::string bytesAfter(const std::string &options, const std::string &name = "out-model") {
    succeed(folder_ + "/" + name, fmt::format("--data text --steps 8 --export out-weights {}", options));
    return readFile(folder_ + "/out-weights");
  }

  /// The MiB behind `label` in --describe.
  static double described(const std::string &name, const std::string &label) {
    std::string text = succeed(folder_ + "/" + name, "--describe");
    std::smatch found;
    EXPECT_TRUE(std::regex_search(text, found, std::regex("\n" + label + " +([0-9.]+) MiB"))) << text;
    return found.empty() ? NAN : std::stod(found[1]);
  }

  /// Images of ten classes, each class a pattern under noise.
  static void writeImages(int count, int elements) {
    std::vector<uint8_t> images, labels;
    for (int i = 0; i < count; ++i) {
      labels.push_back(hashWord(5, i) % 10);
      for (int j = 0; j < elements; ++j)
        images.push_back(hashWord(6, i * elements + j) % 128 + hashWord(7, labels[i] * elements + j) % 128);
    }
    std::ofstream(folder_ + "/images", std::ios::binary)
        << rt::test::npyFile("|u1", fmt::format("({}, {})", count, elements), images);
    std::ofstream(folder_ + "/labels", std::ios::binary) << rt::test::npyFile("|u1", fmt::format("({},)", count), labels);
  }

  static constexpr char kOptions[] = "--batch 4 --warmup 3 --clip 1 --weight-decay 0.1";
  inline static std::string folder_;
};

TEST_F(PrecisionTest, TrainsLikeTheInterpreter) {
  for (const char *precision : {"bf16 --amp-level O1", "bf16 --amp-level O2", "fp16 --amp-level O1", "fp16 --amp-level O2"}) {
    SCOPED_TRACE(precision);
    std::string options = fmt::format("{} --precision {}", kOptions, precision);
    compile(fmt::format("--precision {}", precision));
    std::vector<double> actual = train("--steps 6");
    std::vector<double> expected = column(succeed(kTapeout, "interpret gpt.tape --data text --steps 6 " + options), "loss");
    ASSERT_EQ(actual.size(), 6u);
    ASSERT_EQ(expected.size(), 6u);
    for (size_t i = 0; i < 6; ++i) // a few values lie so near the middle of two that they round to the other one
      EXPECT_NEAR(actual[i], expected[i], 5e-4 * expected[i]) << "step " << i + 1;
  }
}

TEST_F(PrecisionTest, LearnsAsFp32Does) {
  compile("");
  std::vector<double> expected = train("--steps 150");
  EXPECT_LT(expected.back(), expected.front() - 2);
  for (const char *precision : {"bf16 --amp-level O1", "bf16 --amp-level O2", "fp16 --amp-level O1", "fp16 --amp-level O2"}) {
    SCOPED_TRACE(precision);
    compile(fmt::format("--precision {}", precision));
    std::vector<double> actual = train("--steps 150");
    ASSERT_EQ(actual.size(), expected.size());
    EXPECT_NE(actual, expected);
    for (size_t i = 0; i < 20; ++i)
      EXPECT_NEAR(actual[i], expected[i], 5e-3 * expected[i]) << "step " << i + 1;
    EXPECT_NEAR(actual.back(), expected.back(), 0.02 * expected.back());
  }
}

// Batch norm is low at level O2 where what it normalises is.
TEST_F(PrecisionTest, ConvolutionalNetworksLearnAtLevelTwo) {
  writeImages(40, 3 * 33 * 33);
  succeed(kTapeout, "model resnet18 --image 33 --width 3 --classes 10 -o resnet.tape");
  auto losses = [](const std::string &options) {
    succeed(kTapeout, "compile resnet.tape -o out-resnet --batch 8 " + options);
    succeed(folder_ + "/out-resnet", "--data images --labels labels --steps 40 --log-dir out-log");
    return column(readFile(folder_ + "/out-log/metrics.jsonl"), "loss");
  };
  std::vector<double> expected = losses("");
  ASSERT_EQ(expected.size(), 40u);
  EXPECT_LT(expected.back(), expected.front() - 1);
  for (const char *precision : {"bf16", "fp16"}) {
    SCOPED_TRACE(precision);
    std::string options = fmt::format("--precision {} --amp-level O2", precision);
    std::vector<double> actual = losses(options);
    ASSERT_EQ(actual.size(), 40u);
    for (size_t i = 0; i < 40; ++i) // normalising so few elements makes differences large
      EXPECT_NEAR(actual[i], expected[i], (i < 10 ? 0.03 : 0.1) * expected[i]) << "step " << i + 1;
    std::vector<double> interpreted =
        column(succeed(kTapeout, "interpret resnet.tape --data images --labels labels --steps 2 --batch 8 " + options), "loss");
    ASSERT_EQ(interpreted.size(), 2u);
    EXPECT_NEAR(actual[0], interpreted[0], 1e-3 * actual[0]);
    EXPECT_NEAR(actual[1], interpreted[1], 5e-3 * actual[1]);
  }
}

// What level O2 is for. Bounds are near what it gains: 0.908 and 0.830.
TEST_F(PrecisionTest, LevelTwoMovesAndKeepsLess) {
  succeed(kTapeout, "model gpt -o default.tape");
  for (const char *level : {"O1", "O2"})
    succeed(kTapeout, fmt::format("compile default.tape -o out-{0} --precision bf16 --amp-level {0}", level));
  EXPECT_LT(described("out-O2", "bytes moved"), 0.92 * described("out-O1", "bytes moved"));
  EXPECT_LT(described("out-O2", "one step \\(arena\\)"), 0.84 * described("out-O1", "one step \\(arena\\)"));
}

TEST_F(PrecisionTest, GivesTheSameBitsHoweverItRuns) {
  for (const char *precision : {"bf16 --amp-level O1", "fp16 --amp-level O2"}) {
    SCOPED_TRACE(precision);
    compile(fmt::format("--precision {}", precision));
    std::string expected = bytesAfter("--threads 1 --isa avx2");
    EXPECT_TRUE(bytesAfter("--threads 2 --isa avx2") == expected);
    EXPECT_TRUE(bytesAfter("--threads 4") == expected); // with AVX-512 where there is one
    compile(fmt::format("--precision {} --no-fusion", precision));
    EXPECT_TRUE(bytesAfter("--threads 2") == expected);
  }
}

TEST_F(PrecisionTest, SkipsWhatOverflowsAndResumesExactly) {
  compile("--precision fp16");
  std::vector<double> scales = train("--steps 12", "loss_scale");
  EXPECT_EQ(scales, std::vector<double>(12, 65536));
  for (const char *precision : {"fp16 --amp-level O1", "bf16 --amp-level O2"}) { // the scale's state, and copies of parameters
    compile(fmt::format("--precision {}", precision), "out-constant");
    std::string whole = bytesAfter("", "out-constant");
    std::filesystem::remove_all(folder_ + "/out-checkpoints");
    succeed(folder_ + "/out-constant", "--data text --steps 5 --checkpoint-dir out-checkpoints");
    EXPECT_TRUE(bytesAfter("--checkpoint-dir out-checkpoints --resume", "out-constant") == whole) << precision;
  }

  compile("--precision fp16 --loss-scale 1e12", "out-overflow");
  std::vector<double> skipped = train("--steps 4", "skipped_steps", "out-overflow");
  EXPECT_EQ(skipped, (std::vector<double>{1, 2, 3, 4}));
}

TEST_F(PrecisionTest, GivesUpWhenNoScaleHelps) {
  compile("--precision fp16 --loss-scale 1e12");
  Outcome outcome = run(folder_ + "/out-model", "--data text --steps 200");
  EXPECT_EQ(outcome.code, 3);
  EXPECT_NE(outcome.error.find("the last 100 steps were skipped"), std::string::npos) << outcome.error;
}

/// Tensors of a safetensors file whose values are all f32.
std::map<std::string, std::vector<float>> tensorsOf(const std::string &file) {
  uint64_t length = 0;
  std::memcpy(&length, file.data(), sizeof length);
  const nlohmann::json header = nlohmann::json::parse(file.substr(sizeof length, length));
  std::map<std::string, std::vector<float>> tensors;
  for (const auto &[name, entry] : header.items())
    if (entry.contains("data_offsets")) {
      size_t begin = entry["data_offsets"][0], end = entry["data_offsets"][1];
      std::vector<float> &values = tensors[name];
      values.resize((end - begin) / sizeof(float));
      std::memcpy(values.data(), file.data() + sizeof length + length + begin, end - begin);
    }
  return tensors;
}

// Masked tokens are few: most chunks of the bert have none.
TEST_F(PrecisionTest, ChunksOfLogitsChangeLastPlacesOnly) {
  for (const char *model : {"gpt.tape", "bert.tape"})
    for (const char *precision : {"fp32", "bf16 --amp-level O2", "fp16 --amp-level O1"}) {
      SCOPED_TRACE(fmt::format("{} {}", model, precision));
      auto compileInChunks = [&](const std::string &chunks) {
        succeed(kTapeout, fmt::format("compile {} -o out-model --target cpu --batch 8 --optimizer sgd --lr 1 --precision {} "
                                      "--loss-chunks {}", model, precision, chunks));
      };
      compileInChunks("1");
      std::vector<double> losses = train("--steps 1 --export out-weights");
      auto whole = tensorsOf(readFile(folder_ + "/out-weights"));
      compileInChunks("4");
      EXPECT_EQ(train("--steps 1 --export out-weights --check-memory"), losses);
      auto chunked = tensorsOf(readFile(folder_ + "/out-weights"));
      ASSERT_EQ(chunked.size(), whole.size());
      for (auto &[name, values] : whole) {
        ASSERT_EQ(chunked[name].size(), values.size());
        for (size_t i = 0; i < values.size(); ++i) // the learning rate is 1: their difference is that of the gradients
          ASSERT_NEAR(chunked[name][i], values[i], 2e-7 * std::max(1.f, std::abs(values[i]))) << name << " " << i;
      }
      std::string expected = bytesAfter("--threads 1 --isa avx2");
      EXPECT_TRUE(bytesAfter("--threads 3") == expected);
    }
}

TEST_F(PrecisionTest, ChunksTrainLikeTheInterpreter) {
  for (const char *precision : {"fp32", "bf16", "fp16"}) {
    SCOPED_TRACE(precision);
    std::string options = fmt::format("{} --precision {}", kOptions, precision);
    compile(fmt::format("--precision {} --loss-chunks 2", precision));
    std::vector<double> actual = train("--steps 6");
    std::vector<double> expected = column(succeed(kTapeout, "interpret gpt.tape --data text --steps 6 " + options), "loss");
    ASSERT_EQ(actual.size(), expected.size());
    for (size_t i = 0; i < expected.size(); ++i)
      EXPECT_NEAR(actual[i], expected[i], 5e-4 * expected[i]) << "step " << i + 1;
  }
}

TEST_F(PrecisionTest, OtherCommandsTakeItsOptions) {
  std::string passes = succeed(kTapeout, "inspect --list-passes --precision fp16");
  for (const char *pass : {"insert-loss-scaling", "insert-amp-casts", "verify-precision", "widen-windows"})
    EXPECT_NE(passes.find(pass), std::string::npos) << passes;
  EXPECT_EQ(succeed(kTapeout, "inspect --list-passes").find("insert-amp-casts"), std::string::npos);
  std::string dot = succeed(kTapeout, "inspect gpt.tape --precision bf16 --after verify-precision --format dot");
  EXPECT_NE(dot.find("bf16 or f16"), std::string::npos);
  std::string ir = succeed(kTapeout, "inspect gpt.tape --precision bf16 --keep-fp32 blocks.1.* --after verify-precision");
  EXPECT_NE(ir.find("tensor<36x36xbf16>"), std::string::npos);
  EXPECT_NE(succeed(kTapeout, "inspect gpt.tape --batch 4 --loss-chunks 2 --after chunk-loss").find(" plus "), std::string::npos);
  EXPECT_EQ(succeed(kTapeout, "inspect gpt.tape --batch 4 --after chunk-loss").find(" plus "), std::string::npos);
}

TEST_F(PrecisionTest, RefusesOptionsThatDoNotFit) {
  auto error = [](const std::string &options) {
    Outcome outcome = run(kTapeout, "compile gpt.tape -o out-model " + options);
    EXPECT_EQ(outcome.code, 78) << options;
    return outcome.error;
  };
  EXPECT_NE(error("--amp-level O2").find("give --precision bf16 or fp16"), std::string::npos);
  EXPECT_NE(error("--keep-fp32 x").find("give --precision bf16 or fp16"), std::string::npos);
  EXPECT_NE(error("--loss-scale -1").find("--loss-scale is -1"), std::string::npos);
  for (const char *chunks : {"0", "few", "-2", "1.5", "257"})
    EXPECT_NE(error(fmt::format("--loss-chunks {}", chunks)).find(fmt::format("--loss-chunks is {}, but must be", chunks)),
              std::string::npos);
  Outcome fewer = run(kTapeout, "compile gpt.tape -o out-model --batch 4 --loss-chunks 7");
  EXPECT_EQ(fewer.code, 0);
  EXPECT_NE(fewer.error.find("warning: the loss is computed in 4 chunks instead of 7"), std::string::npos) << fewer.error;
  succeed(kTapeout, "model unet -o unet.tape"); // its logits come from a convolution
  Outcome none = run(kTapeout, "compile unet.tape -o out-model --target cpu --batch 2 --loss-chunks 2");
  EXPECT_NE(none.error.find("warning: the loss is computed in 1 piece instead of 2"), std::string::npos) << none.error;
  EXPECT_EQ(run(kTapeout, "compile gpt.tape -o out-model --batch 4 --loss-chunks 4").error, "");
  Outcome outcome = run(kTapeout, "compile gpt.tape -o out-model --precision bf16 --keep-fp32 nothing");
  EXPECT_EQ(outcome.code, 1);
  EXPECT_NE(outcome.error.find("the pattern 'nothing' of --keep-fp32 matches no layer"), std::string::npos) << outcome.error;
}

} // namespace
} // namespace tapeout::e2e
