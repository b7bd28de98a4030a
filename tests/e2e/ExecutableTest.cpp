// Training executables as users meet them: compiled by `tapeout`, run as processes, compared with `tapeout interpret`
// and with themselves.
#include "frontend/ModelFile.h"
#include "runtime/base/Safetensors.h"
#include "tests/e2e/Hash.h"
#include "tests/e2e/Process.h"
#include "tests/e2e/Regressor.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>

namespace tapeout::e2e {
namespace {

constexpr char kTapeout[] = TAPEOUT_BINARY;

/// The `key` of every line of JSON.
std::vector<double> column(const std::string &lines, const char *key) {
  std::vector<double> values;
  std::istringstream stream(lines);
  for (std::string line; std::getline(stream, line);)
    if (line.starts_with("{"))
      values.push_back(nlohmann::json::parse(line).at(key));
  return values;
}

template <typename T> void append(std::string &bytes, T value) {
  bytes.append(reinterpret_cast<const char *>(&value), sizeof value);
}

/// A NumPy array file, version 1.0: a header in Python's syntax, padded to 64 bytes, then the values.
std::string npyHeader(const std::string &type, const std::string &shape) {
  std::string text = "{'descr': '" + type + "', 'fortran_order': False, 'shape': (" + shape + "), }";
  text.resize((10 + text.size() + 1 + 63) / 64 * 64 - 10 - 1, ' ');
  text += '\n';
  std::string bytes("\x93NUMPY\x01\x00", 8);
  append(bytes, static_cast<uint16_t>(text.size()));
  return bytes + text;
}

class ExecutableTest : public testing::Test {
protected:
  /// The executables are the same for all tests: compiled once.
  static void SetUpTestSuite() {
    std::string pattern = testing::TempDir() + "tapeout-e2e-XXXXXX";
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    shared_ = pattern;
    writeData();
    // Extents that no vector width divides.
    prepare(kTapeout, "model gpt --layers 2 --heads 3 --width 36 --context 13 --vocab 256 --dropout 0.1 -o %gpt.tape");
    prepare(kTapeout, "model mlp --inputs 61 --hidden 47,33 --classes 10 -o %mlp.tape");
    Status written = frontend::writeModel(buildRegressor(), shared_ + "/regressor.tape");
    ASSERT_TRUE(written.isOk()) << written.message();
    compile("gpt", kGptOptions);
    compile("mlp", kMlpOptions);
    compile("regressor", "--lr 0.01");
  }
  static void TearDownTestSuite() { std::filesystem::remove_all(shared_); }

  void SetUp() override {
    folder_ = shared_ + "/" + testing::UnitTest::GetInstance()->current_test_info()->name();
    std::filesystem::create_directory(folder_);
  }

  static void writeData() {
    std::string text;
    for (int i = 0; i < 20000; ++i)
      text += "the quick brown fox jumps over the lazy dog. "[hashWord(1, i / 16) % 8 + i % 16];
    std::ofstream(shared_ + "/text", std::ios::binary) << text;

    writeFloats("images.npy", 61, 2);
    writeFloats("planes.npy", 3 * 33 * 33, 6);
    writeFloats("features.npy", 8, 3);
    writeFloats("targets.npy", 3, 4);
    std::string labels = npyHeader("<i8", std::to_string(kSamples) + ",");
    for (int i = 0; i < kSamples; ++i)
      append(labels, static_cast<int64_t>(hashWord(5, i) % 10));
    std::ofstream(shared_ + "/labels.npy", std::ios::binary) << labels;
  }
  static void writeFloats(const std::string &name, int width, uint32_t stream) {
    std::string bytes = npyHeader("<f4", fmt::format("{}, {}", kSamples, width));
    for (int i = 0; i < kSamples * width; ++i)
      append(bytes, static_cast<float>(hashFraction(hashWord(stream, i))));
    std::ofstream(shared_ + "/" + name, std::ios::binary) << bytes;
  }

  /// Words separated by spaces; "@name" is a file of `folder`, "%name" one of all tests.
  static std::vector<std::string> split(const std::string &folder, const std::string &program,
                                        const std::string &text) {
    std::vector<std::string> words = {program};
    std::istringstream stream(text);
    for (std::string word; stream >> word;)
      words.push_back(word[0] == '@'   ? folder + "/" + word.substr(1)
                      : word[0] == '%' ? shared_ + "/" + word.substr(1)
                                       : word);
    return words;
  }
  static Outcome runIn(const std::string &folder, const std::string &program, const std::string &text) {
    return Process(split(folder, program, text), folder + "/last").wait();
  }

  /// Runs a command that has to succeed.
  static void prepare(const std::string &program, const std::string &text) {
    Outcome outcome = runIn(shared_, program, text);
    ASSERT_EQ(outcome.code, 0) << program << " " << text << "\n" << outcome.out << outcome.error;
  }
  /// Compiles %`model`.tape to %`model``suffix`.
  static void compile(const std::string &model, const std::string &options, const std::string &suffix = "") {
    prepare(kTapeout, fmt::format("compile %{0}.tape -o %{0}{1} {2}", model, suffix, options));
  }
  /// Runs an executable of all tests.
  Outcome run(const std::string &name, const std::string &text) { return runIn(folder_, shared_ + "/" + name, text); }
  std::unique_ptr<Process> start(const std::string &name, const std::string &text) {
    return std::make_unique<Process>(split(folder_, shared_ + "/" + name, text), folder_ + "/last");
  }
  void expectRun(int code, const std::string &name, const std::string &text) {
    Outcome outcome = run(name, text);
    EXPECT_EQ(outcome.code, code) << name << " " << text << "\n" << outcome.out << outcome.error;
    EXPECT_EQ(outcome.error.empty(), code == 0) << outcome.error;
  }

  std::string get(const std::string &name) const { return readFile(folder_ + "/" + name); }
  size_t stepsLogged() const { return column(completeLines(get("log/metrics.jsonl")), "loss").size(); }
  static std::string completeLines(const std::string &text) { return text.substr(0, text.rfind('\n') + 1); }

  /// Waits until the training has logged `steps` steps; false when it ended before.
  bool waitForSteps(Process &process, size_t steps) {
    while (stepsLogged() < steps) {
      if (!process.isRunning())
        return false;
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    return true;
  }

  /// Ten steps of the executable and of the interpreter, which gets the options that the executable was compiled with.
  void compareWithInterpreter(const std::string &model, const std::string &suffix, const std::string &options,
                              const std::string &run, double tolerance = 1e-5) {
    expectRun(0, model + suffix, run + " --steps 10 --log-dir @log");
    Outcome interpreted =
        runIn(folder_, kTapeout,
              fmt::format("interpret %{}.tape {} {} --steps 10 --precision fp32", model, options, run));
    ASSERT_EQ(interpreted.code, 0) << interpreted.error;
    for (const char *key : {"loss", "grad_norm", "lr"}) {
      std::vector<double> actual = column(get("log/metrics.jsonl"), key), expected = column(interpreted.out, key);
      ASSERT_EQ(actual.size(), 10u);
      ASSERT_EQ(expected.size(), 10u);
      for (size_t i = 0; i < 10; ++i)
        EXPECT_NEAR(actual[i], expected[i], tolerance * std::abs(expected[i])) << key << " of step " << i + 1;
    }
  }

  void expectResumedAfterKills(int kills);
  static void compileResnet() {
    prepare(kTapeout, "model resnet18 --image 33 --width 3 --classes 10 -o %resnet18.tape");
    compile("resnet18", "--batch 4");
  }

  static constexpr char kGptOptions[] = "--batch 4 --schedule cosine --warmup 3 --clip 1 --weight-decay 0.1";
  static constexpr char kMlpOptions[] = "--batch 16 --optimizer momentum --weight-decay 0.01";
  static constexpr char kGptData[] = "--data %text";
  static constexpr char kMlpData[] = "--data %images.npy --labels %labels.npy";
  static constexpr char kPlanes[] = "--data %planes.npy --labels %labels.npy";
  static constexpr int kSamples = 200;

  inline static std::string shared_;
  std::string folder_;
};

TEST_F(ExecutableTest, GptTrainsLikeTheInterpreter) { compareWithInterpreter("gpt", "", kGptOptions, kGptData); }

TEST_F(ExecutableTest, GptTrainsLikeTheInterpreterFromAFile) {
  expectRun(0, "gpt", "--data %text --steps 5 --seed 3 --export @start");
  compareWithInterpreter("gpt", "", kGptOptions, std::string(kGptData) + " --init @start");
}

TEST_F(ExecutableTest, GptOfDefaultSizesTrainsLikeTheInterpreter) {
  prepare(kTapeout, "model gpt -o %default.tape");
  compile("default", "--batch 1");
  compareWithInterpreter("default", "", "--batch 1", kGptData);
}

TEST_F(ExecutableTest, RegressorTrainsLikeTheInterpreter) {
  compareWithInterpreter("regressor", "", "--lr 0.01", "--data %features.npy --labels %targets.npy");
}

TEST_F(ExecutableTest, LenetTrainsLikeTheInterpreter) {
  prepare(kTapeout, "model lenet --image 33 --channels 3 --width 5 -o %lenet.tape");
  compile("lenet", "--batch 6 --clip 1");
  compareWithInterpreter("lenet", "", "--batch 6 --clip 1", kPlanes);
}

TEST_F(ExecutableTest, UnetTrainsLikeTheInterpreter) {
  prepare(kTapeout, "model unet --image 16 --width 2 --classes 3 -o %unet.tape");
  writeFloats("squares.npy", 3 * 16 * 16, 7);
  std::string labels = npyHeader("|u1", fmt::format("{}, 16, 16", kSamples));
  for (int i = 0; i < kSamples * 16 * 16; ++i)
    labels += static_cast<char>(hashWord(8, i) % 3);
  std::ofstream(shared_ + "/masks.npy", std::ios::binary) << labels;
  compile("unet", "--batch 4");
  compareWithInterpreter("unet", "", "--batch 4", "--data %squares.npy --labels %masks.npy");
}

TEST_F(ExecutableTest, ResnetTrainsLikeTheInterpreter) {
  compileResnet();
  compareWithInterpreter("resnet18", "", "--batch 4", kPlanes, 1e-4);
}

// Running statistics are saved and go on, and evaluation neither changes them nor depends on what else is in a batch.
TEST_F(ExecutableTest, RunningStatisticsAreState) {
  compileResnet();
  expectRun(0, "resnet18", std::string(kPlanes) + " --steps 6 --threads 1 --export @whole --checkpoint-dir @undisturbed");
  expectRun(0, "resnet18", std::string(kPlanes) + " --steps 3 --threads 2 --checkpoint-dir @state");
  expectRun(0, "resnet18", std::string(kPlanes) + " --steps 6 --threads 2 --checkpoint-dir @state --resume --export @resumed");
  EXPECT_EQ(get("whole"), get("resumed"));
  auto file = Safetensors::open(folder_ + "/whole");
  ASSERT_TRUE(file.isOk());
  const TensorEntry *mean = file->find("layer2.0.downsample.1.running_mean");
  ASSERT_NE(mean, nullptr);
  float first;
  std::memcpy(&first, file->data(*mean).data(), sizeof first);
  EXPECT_NE(first, 0.0f);

  compile("resnet18", "--batch 5", "5");
  std::string evaluate = "--init @whole --eval-data %planes.npy --eval-labels %labels.npy";
  Outcome four = run("resnet18", evaluate + " --export @evaluated"), five = run("resnet185", evaluate);
  ASSERT_EQ(four.code, 0) << four.error;
  ASSERT_EQ(five.code, 0) << five.error;
  auto loss = [](const Outcome &outcome) { return std::stod(outcome.out.substr(outcome.out.rfind(' '))); };
  EXPECT_NEAR(loss(four), loss(five), 1e-5);
  EXPECT_EQ(get("evaluated"), get("whole"));
  Outcome checked = run("resnet18", std::string(kPlanes) + " --steps 6 --export @checked --check-memory");
  EXPECT_EQ(checked.code, 0) << checked.error;
  EXPECT_EQ(get("checked"), get("whole"));
}

TEST_F(ExecutableTest, EveryOptimizerTrainsLikeTheInterpreter) {
  compareWithInterpreter("mlp", "", kMlpOptions, kMlpData);
  for (const char *optimizer : {"adam", "sgd", "nesterov"}) {
    SCOPED_TRACE(optimizer);
    std::string options = fmt::format("--batch 7 --optimizer {} --weight-decay 0.01", optimizer);
    compile("mlp", options, optimizer);
    compareWithInterpreter("mlp", optimizer, options, kMlpData);
  }
}

TEST_F(ExecutableTest, TheMemoryPlanHoldsAndNothingReadsDeadMemory) {
  expectRun(0, "gpt", "--data %text --steps 3 --export @plain");
  Outcome checked = run("gpt", "--data %text --steps 3 --export @checked --check-memory");
  EXPECT_EQ(checked.code, 0) << checked.error;
  EXPECT_EQ(get("plain"), get("checked"));
}

// 200 samples are no multiple of either batch: the filling of the last one must not count.
TEST_F(ExecutableTest, EvaluationDoesNotDependOnTheBatch) {
  compile("mlp", "--batch 7", "7");
  std::string evaluate = "--eval-data %images.npy --eval-labels %labels.npy";
  Outcome sixteen = run("mlp", evaluate), seven = run("mlp7", evaluate);
  auto loss = [](const Outcome &outcome) { return std::stod(outcome.out.substr(outcome.out.rfind(' '))); };
  ASSERT_EQ(sixteen.code, 0) << sixteen.error;
  ASSERT_EQ(seven.code, 0) << seven.error;
  EXPECT_NEAR(loss(sixteen), loss(seven), 2e-6);
}

TEST_F(ExecutableTest, ThreadsAndRepetitionDoNotChangeABit) {
  for (const char *threads : {"1", "2", "4"})
    expectRun(0, "gpt", fmt::format("--data %text --steps 20 --threads {0} --export @{0}", threads));
  expectRun(0, "gpt", "--data %text --steps 20 --threads 2 --export @again");
  ASSERT_GT(get("1").size(), 10000u);
  EXPECT_EQ(get("1"), get("2"));
  EXPECT_EQ(get("1"), get("4"));
  EXPECT_EQ(get("2"), get("again"));
  expectRun(0, "gpt", "--data %text --steps 20 --seed 2 --export @other");
  EXPECT_NE(get("1"), get("other"));
}

TEST_F(ExecutableTest, AStoppedTrainingGoesOnAsIfItHadNot) {
  std::string training = "--data %text --steps 1000 --threads 1 --export @end --log-dir @log --checkpoint-dir @state";
  expectRun(0, "gpt", "--data %text --steps 1000 --threads 1 --export @whole");
  auto process = start("gpt", training);
  ASSERT_TRUE(waitForSteps(*process, 10));
  process->send(SIGTERM);
  Outcome stopped = process->wait();
  ASSERT_EQ(stopped.code, 75) << stopped.error;
  EXPECT_EQ(get("end"), "");
  expectRun(0, "gpt", training + " --resume");
  EXPECT_EQ(get("end"), get("whole"));
  EXPECT_EQ(stepsLogged(), 1000u);
}

void ExecutableTest::expectResumedAfterKills(int kills) {
  size_t stride = 20, steps = stride * kills + 500;
  std::string training = fmt::format("--data %text --threads 1 --checkpoint-every 5 --steps {}", steps);
  expectRun(0, "gpt", training + " --export @whole --checkpoint-dir @undisturbed");
  training += " --export @end --log-dir @log --checkpoint-dir @state";
  std::string resume;
  for (int kill = 0; kill < kills; ++kill) {
    auto process = start("gpt", training + resume);
    // A step further each time, so that kills hit different phases of a save.
    ASSERT_TRUE(waitForSteps(*process, stride * (kill + 1) + kill)) << "kill " << kill << ": " << process->wait().error;
    process->send(SIGKILL);
    ASSERT_EQ(process->wait().code, 128 + SIGKILL);
    resume = " --resume";
  }
  expectRun(0, "gpt", training + resume);
  EXPECT_EQ(get("end"), get("whole"));
  EXPECT_EQ(stepsLogged(), steps);
}

TEST_F(ExecutableTest, AKilledTrainingGoesOnAsIfItHadNot) { expectResumedAfterKills(5); }
// The long form: --gtest_also_run_disabled_tests.
TEST_F(ExecutableTest, DISABLED_ATrainingSurvivesTwentyKills) { expectResumedAfterKills(20); }

TEST_F(ExecutableTest, FrozenParametersKeepTheirBits) {
  compile("mlp", fmt::format("{} --freeze layers.0.*", kMlpOptions), "-frozen");
  expectRun(0, "mlp-frozen", "--export @before");
  expectRun(0, "mlp-frozen", fmt::format("{} --steps 5 --export @after", kMlpData));
  auto before = Safetensors::open(folder_ + "/before"), after = Safetensors::open(folder_ + "/after");
  ASSERT_TRUE(before.isOk() && after.isOk());
  for (const TensorEntry &entry : before->tensors()) {
    auto old = before->data(entry), trained = after->data(*after->find(entry.name));
    bool isSame = std::equal(old.begin(), old.end(), trained.begin(), trained.end());
    EXPECT_EQ(isSame, entry.name.starts_with("layers.0.")) << entry.name;
  }
}

TEST_F(ExecutableTest, GeneratesTheSameTextTwice) {
  expectRun(0, "gpt", "--data %text --steps 30 --export @weights");
  std::string generate = "--init @weights --generate quick --tokens 20";
  Outcome first = run("gpt", generate), second = run("gpt", generate);
  ASSERT_EQ(first.code, 0) << first.error;
  EXPECT_TRUE(first.out.starts_with("quick")) << first.out;
  EXPECT_GT(first.out.size(), 20u);
  EXPECT_EQ(first.out, second.out);
}

TEST_F(ExecutableTest, RefusesModelsThatWouldReadBesideTheirTables) {
  auto compile = [&](const std::string &model, auto change) {
    Result<frontend::Graph> graph = frontend::readModel(shared_ + "/" + model + ".tape");
    EXPECT_TRUE(graph.isOk()) << graph.status().message();
    change(*graph);
    EXPECT_TRUE(frontend::writeModel(*graph, folder_ + "/changed.tape").isOk());
    Outcome outcome = runIn(folder_, kTapeout, "compile @changed.tape -o @changed");
    EXPECT_EQ(outcome.code, 65) << outcome.error;
    return outcome.error;
  };
  using frontend::Graph;
  EXPECT_NE(compile("gpt", [](Graph &g) { g.vocabulary = 257; }).find("fewer rows"), std::string::npos);
  EXPECT_NE(compile("mlp", [](Graph &g) { ++g.vocabulary; }).find("fewer logits"), std::string::npos);
  EXPECT_NE(compile("mlp", [](Graph &g) { g.nodes.back().attributes.emplace_back("scael", 2.0); })
                .find("has no attribute 'scael'"),
            std::string::npos);
  auto attendsTo = [&](size_t operands) {
    return compile("gpt", [&](Graph &g) {
      std::find_if(g.nodes.begin(), g.nodes.end(), [](auto &node) { return node.op == "attention"; })->operands.resize(operands, 0);
    });
  };
  EXPECT_NE(attendsTo(5).find("takes 3 to 4 operands, not 5"), std::string::npos);
  EXPECT_NE(attendsTo(4).find("a length for each of the"), std::string::npos);
}

TEST_F(ExecutableTest, CompilesAttentionWithPadding) {
  using namespace frontend;
  GraphBuilder g("padded", Task::Regression);
  Value x = g.input("features", {ElementType::F32, {kBatch, 5, 2, 8}});
  Value lengths = g.input("lengths", {ElementType::I32, {kBatch}});
  x = g.attention(x, x, x, {.causal = false, .scale = 0.5, .dropout = 0.1, .lengths = lengths});
  x = g.linear("out", g.reshape(x, {kBatch, 80}), 3, normal(0, 0.25), zeros());
  ASSERT_TRUE(writeModel(g.finish(x), folder_ + "/padded.tape").isOk());
  for (const char *target : {"cpu", "cuda:sm_90", "cuda:sm_90 --precision bf16"}) {
    std::string options = fmt::format("compile @padded.tape -o @padded --plan-only --batch 2 --target {}", target);
    Outcome outcome = runIn(folder_, kTapeout, options);
    EXPECT_EQ(outcome.code, 0) << outcome.error;
  }
  Outcome plan = runIn(folder_, kTapeout,
                       "inspect @padded.tape --batch 2 --target cuda:sm_90 --precision bf16 --after verify-plan");
  EXPECT_NE(plan.out.find("plan.attention padded"), std::string::npos) << plan.error;
}

TEST_F(ExecutableTest, TheCompilerNeverWritesOverItsInput) {
  std::filesystem::copy_file(shared_ + "/mlp.tape", folder_ + "/m.tape");
  std::string before = readFile(folder_ + "/m.tape");
  EXPECT_EQ(runIn(folder_, kTapeout, "compile @m.tape -o @m.tape").code, 2);
  EXPECT_EQ(runIn(folder_, kTapeout, "inspect @m.tape -o @m.tape").code, 2);
  EXPECT_EQ(runIn(folder_, kTapeout, "compile @m.tape -o @x --save-ir @m.tape").code, 73);
  EXPECT_EQ(readFile(folder_ + "/m.tape"), before);
  EXPECT_EQ(runIn(folder_, kTapeout, "compile @m.tape -o @x --seed 1.5").code, 78);
  EXPECT_EQ(runIn(folder_, kTapeout, "compile @m.tape -o @x --threads 100000").code, 78);
  EXPECT_EQ(runIn(folder_, kTapeout, "--config /dev/zero compile @m.tape -o @x").code, 66);
}

TEST_F(ExecutableTest, BenchComparesAModelWithAndWithoutFusion) {
  Outcome outcome = runIn(folder_, kTapeout, "bench %gpt.tape --batch 2 --steps 5 --threads 2 --json @b.json --plot @b.svg");
  ASSERT_EQ(outcome.code, 0) << outcome.error;
  EXPECT_NE(outcome.out.find("fusion off / fusion on: "), std::string::npos) << outcome.out;
  EXPECT_NE(get("b.svg").find("<svg"), std::string::npos);
  auto executables = nlohmann::json::parse(get("b.json")).at("executables");
  const auto &off = executables.at(0), &on = executables.at(1);
  for (const char *key : {"launches", "bytes_moved"})
    EXPECT_GT(off.at(key), on.at(key)) << key;
  EXPECT_EQ(off.at("matrix_products"), on.at("matrix_products"));
  EXPECT_EQ(off.at("loss"), on.at("loss"));
  EXPECT_EQ(runIn(folder_, kTapeout, "bench %gpt.tape --no-fusion").code, 2);
  EXPECT_EQ(runIn(folder_, kTapeout, "bench %gpt --batch 3").code, 2);
  EXPECT_EQ(runIn(folder_, kTapeout, "bench @missing.tape").code, 66);
}

TEST_F(ExecutableTest, ExitCodesTellWhatIsWrong) {
  std::ofstream(folder_ + "/short", std::ios::binary) << "abc";
  std::filesystem::create_directory(folder_ + "/state");
  std::ofstream(folder_ + "/state/file") << "x";
  expectRun(2, "gpt", "--no-such-option");
  expectRun(2, "gpt", "");
  expectRun(66, "gpt", "--data @missing --steps 1");
  expectRun(65, "gpt", "--data @short --steps 1");
  expectRun(65, "mlp", "--data @short --labels %labels.npy --steps 1");
  expectRun(65, "gpt", "--data %text --steps 1 --init @short");
  expectRun(78, "gpt", "--data %text --steps 1 --checkpoint-dir @state");
  expectRun(78, "gpt", "--data %text --steps 1 --lr -1");
  EXPECT_EQ(runIn(folder_, kTapeout, "compile @missing.tape -o @out").code, 66);
  EXPECT_EQ(runIn(folder_, kTapeout, "compile @short -o @out").code, 65);
  EXPECT_EQ(runIn(folder_, kTapeout, "no-such-command").code, 2);
}

} // namespace
} // namespace tapeout::e2e
