// The runner as users meet it: a process with options, output and an exit code.
#include "runtime/base/Package.h"
#include "tests/runtime/TestPlans.h"

#include <gtest/gtest.h>

#include <dlfcn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>

namespace tapeout::rt {
namespace {

using namespace test;

struct Outcome {
  int code = -1;
  std::string out, error;
};

class Runner : public testing::Test {
protected:
  void SetUp() override {
    writeRegressionData(folder, 100);
    std::vector<uint8_t> plan = serialize(regressionPlan()), kernels = kernelBytes();
    Status status = writePackage(
        TAPEOUT_RUNNER, {{SectionKind::Plan, "", plan, ""}, {SectionKind::CpuKernels, "", kernels, ""}}, executable);
    ASSERT_TRUE(status.isOk()) << status.message();
  }

  /// Starts `program` with words separated by spaces; "@" stands for the test's folder,
  /// "~" alone for an empty word.
  pid_t start(const std::string &program, const std::string &words) {
    std::vector<std::string> arguments = {program};
    std::istringstream stream(words);
    for (std::string word; stream >> word;) {
      if (size_t at = word.find('@'); at != std::string::npos)
        word = word.substr(0, at) + folder.file(word.substr(at + 1));
      arguments.push_back(word == "~" ? "" : word);
    }
    std::vector<char *> pointers;
    for (std::string &argument : arguments)
      pointers.push_back(argument.data());
    pointers.push_back(nullptr);
    pid_t child = fork();
    if (child == 0) {
      if ((std::filesystem::exists(folder.file("in")) && !std::freopen(folder.file("in").c_str(), "r", stdin)) ||
          !std::freopen(folder.file("out").c_str(), "w", stdout) ||
          !std::freopen(folder.file("err").c_str(), "w", stderr))
        _exit(126);
      execv(program.c_str(), pointers.data());
      _exit(127);
    }
    return child;
  }

  Outcome finish(pid_t child) {
    int status = 0;
    waitpid(child, &status, 0);
    return {WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status), readText(folder.file("out")),
            readText(folder.file("err"))};
  }

  Outcome run(const std::string &words) { return finish(start(executable, words)); }

  void expectError(const std::string &words, int code, const std::string &part) {
    Outcome outcome = run(words);
    EXPECT_EQ(outcome.code, code) << words << "\n" << outcome.error;
    EXPECT_NE(outcome.error.find(part), std::string::npos) << words << "\n" << outcome.error;
  }

  TemporaryFolder folder;
  std::string executable = folder.file("trainer");
};

const std::string kTrain = "--data @x.npy --labels @y.npy --threads 2 ";

TEST_F(Runner, TrainsEvaluatesAndExports) {
  Outcome outcome =
      run(kTrain +
          "--steps 200 --lr 0.1 --log-dir @log --eval-data @x.npy --eval-labels @y.npy --export @w --check-memory");
  ASSERT_EQ(outcome.code, 0) << outcome.error;
  EXPECT_NE(outcome.out.find("regression: 16 samples per step, 2 threads"), std::string::npos) << outcome.out;
  EXPECT_TRUE(std::filesystem::exists(folder.file("log/metrics.jsonl")));
  EXPECT_NE(outcome.error.find("touch 128 of the 128 arena bytes planned"), std::string::npos) << outcome.error;

  outcome = run("--init @w --eval-data @x.npy --eval-labels @y.npy");
  EXPECT_EQ(outcome.code, 0) << outcome.error;
  EXPECT_NE(outcome.out.find("evaluation loss 0.0000"), std::string::npos) << outcome.out;
}

TEST_F(Runner, CudaWithoutDriverIsASentence) {
  if (dlopen("libcuda.so.1", RTLD_NOW))
    GTEST_SKIP() << "there is a driver";
  std::vector<uint8_t> plan = serialize(cudaRegressionPlan());
  ASSERT_TRUE(writePackage(TAPEOUT_RUNNER, {{SectionKind::Plan, "", plan, ""}}, executable).isOk());
  expectError(kTrain + "--steps 10", 69,
              "error: this executable trains on an NVIDIA GPU, but there is no NVIDIA driver (libcuda");
  expectError(kTrain + "--steps 10 --isa avx2", 78, "--isa chooses among kernels for the processor");
  Outcome outcome = run("--describe");
  EXPECT_EQ(outcome.code, 0) << outcome.error;
  EXPECT_NE(outcome.out.find("PTX, sm_80, sm_86, sm_90"), std::string::npos) << outcome.out;
}

TEST_F(Runner, ResumedRunGivesTheSameFile) {
  ASSERT_EQ(run(kTrain + "--steps 30 --seed 4 --export @straight").code, 0);
  ASSERT_EQ(run(kTrain + "--steps 30 --seed 4 --checkpoint-dir @c --checkpoint-every 10 --export @same").code, 0);
  EXPECT_EQ(readText(folder.file("same")), readText(folder.file("straight")));
  std::filesystem::remove_all(folder.file("c/step-00000030"));
  std::filesystem::remove_all(folder.file("c/latest"));
  Outcome outcome = run(kTrain + "--steps 30 --checkpoint-dir @c --resume --threads 1 --export @resumed");
  EXPECT_EQ(outcome.code, 2) << "--threads twice"; // an option given twice is a mistake
  outcome = run(kTrain + "--steps 30 --checkpoint-dir @c --resume --export @resumed");
  ASSERT_EQ(outcome.code, 0) << outcome.error;
  EXPECT_NE(outcome.out.find("resumed after step 20"), std::string::npos) << outcome.out;
  EXPECT_EQ(readText(folder.file("resumed")), readText(folder.file("straight")));
  expectError(kTrain + "--steps 40 --checkpoint-dir @c --resume --seed 5", 78, "made with the seed 4");
}

TEST_F(Runner, SignalSavesAndExitsWith75) {
  pid_t child = start(executable, kTrain + "--steps 100000000 --checkpoint-dir @c --log-dir @log");
  for (int i = 0; i < 1000 && readText(folder.file("log/metrics.jsonl")).empty(); ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  kill(child, SIGTERM);
  Outcome outcome = finish(child);
  EXPECT_EQ(outcome.code, 75) << outcome.error;
  EXPECT_NE(outcome.error.find("stopped by SIGTERM after step "), std::string::npos) << outcome.error;
  expectError(kTrain + "--steps 10 --checkpoint-dir @c", 78, "is not empty; add --resume");
}

TEST_F(Runner, SpeaksOfBadUse) {
  expectError("", 2, "nothing to do");
  expectError("--no-such-option", 2, "--no-such-option");
  expectError("--describe extra", 2, "extra");
  expectError(kTrain + "--steps 5 --beta1 0.9", 2, "the optimizer 'sgd' of this executable has no beta1");
  expectError("--resume --describe", 2, "--resume needs --checkpoint-dir");
  expectError(kTrain + "--steps 5 --lr -1", 78, "--lr: -1 is out of range");
  expectError(kTrain + "--steps 5 --lr fast", 78, "--lr");
  expectError(kTrain + "--steps 5 --momentum 1", 78, "below 1");
  expectError(kTrain + "--steps 5 --schedule sudden", 78, "no schedule 'sudden'");
  expectError(kTrain + "--steps -5", 78, "--steps");
  expectError(kTrain + "--steps 5 --keep 0", 78, "--keep");
  expectError(kTrain, 78, "give --steps N");
  expectError("--data @none.npy --labels @y.npy --steps 5", 66, "none.npy");
  expectError("--data @y.npy --labels @x.npy --steps 5", 65, "y.npy");
  expectError(kTrain + "--steps 5 --init @none", 66, "none");
  expectError(kTrain + "--steps 50 --lr 1e30", 3, "the loss of step 2 is not finite");
  expectError(kTrain + "--steps 5 --log-dir /dev/null/x", 73, "/dev/null/x");
  expectError("--generate hello", 78, "--generate");
}

TEST_F(Runner, RefusesEmptyAndMeaninglessValues) {
  for (const char *option : {"--lr=", "--export=", "--checkpoint-dir="}) {
    std::string given = option, name = given.substr(0, given.size() - 1);
    Outcome outcome = finish(start(executable, kTrain + "--steps 5 " + name + " ~"));
    EXPECT_EQ(outcome.code, 2) << option << outcome.error;
    EXPECT_NE(outcome.error.find(name + " has an empty value"), std::string::npos) << outcome.error;
  }
  expectError(kTrain + "--steps 5 --checkpoint-dir @c --checkpoint-every -1", 78, "--checkpoint-every");
  expectError(kTrain + "--steps 5 --temperature nan", 78, "--temperature");
  expectError(kTrain + "--steps 5 --trace-from 3", 2, "--trace-from needs --trace");
  expectError(kTrain + "--steps 5 --trace @t --trace-from 6", 78, "--trace-from: this run ends with step 5");
  expectError(kTrain + "--steps 5 --eval-labels @y.npy", 2, "--eval-labels belongs to --eval-data");
  expectError(kTrain + "--steps 5 --eval-data @x.npy", 66, "--eval-labels");
}

TEST_F(Runner, FindsOutBeforeTrainingThatItCannotWrite) {
  for (const char *option : {"--export @none/w", "--trace @none/t", "--checkpoint-dir @x.npy"}) {
    Outcome outcome = run(kTrain + "--steps 5 " + option);
    EXPECT_EQ(outcome.code, 73) << option << outcome.error;
    EXPECT_EQ(outcome.out, "") << option;
  }
}

TEST_F(Runner, KeepsTheTrainingWhenItsEvaluationFails) {
  std::string bytes = readText(folder.file("x.npy"));
  std::fill(bytes.begin() + 128, bytes.end(), '\xff'); // not numbers, behind the header
  std::ofstream(folder.file("nan.npy"), std::ios::binary) << bytes;
  expectError(kTrain + "--steps 5 --checkpoint-dir @c --eval-data @nan.npy --eval-labels @y.npy", 3, "evaluation");
  EXPECT_TRUE(std::filesystem::exists(folder.file("c/step-00000005/manifest.json")));
}

TEST_F(Runner, KeepsASecondRunOutOfItsCheckpoints) {
  pid_t child = start(executable, kTrain + "--steps 100000000 --checkpoint-dir @c --log-dir @log");
  for (int i = 0; i < 1000 && readText(folder.file("log/metrics.jsonl")).empty(); ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  pid_t second = start(executable, kTrain + "--steps 9 --checkpoint-dir @c --resume");
  Outcome refused = finish(second);
  kill(child, SIGHUP);
  Outcome outcome = finish(child);
  EXPECT_EQ(refused.code, 78) << refused.error;
  EXPECT_NE(refused.error.find("in use by another run"), std::string::npos) << refused.error;
  EXPECT_EQ(outcome.code, 75);
  EXPECT_TRUE(std::filesystem::exists(folder.file("c/latest")));
}

TEST_F(Runner, TrainsOnDemandForBench) {
  for (const char *data : {"", "--data @x.npy --labels @y.npy"}) {
    std::ofstream(folder.file("in")) << "3\n1\n";
    Outcome outcome = run(std::string("--bench --threads 2 --steps 4 ") + data);
    ASSERT_EQ(outcome.code, 0) << outcome.error;
    std::istringstream lines(outcome.out);
    std::string description, three, one, rest;
    ASSERT_TRUE(std::getline(lines, description) && std::getline(lines, three) && std::getline(lines, one));
    EXPECT_FALSE(std::getline(lines, rest)) << rest;
    EXPECT_NE(description.find("\"launches\":"), std::string::npos) << description;
    EXPECT_NE(description.find("\"arena_planned\":128"), std::string::npos) << description;
    EXPECT_NE(description.find("\"memory_planned\":128"), std::string::npos) << description;
    EXPECT_EQ(std::count(three.begin(), three.end(), ','), std::count(one.begin(), one.end(), ',') + 4) << three;
    EXPECT_EQ(one.find("\"loss\":0.0,"), std::string::npos) << one;
    EXPECT_EQ(one.find("\"arena_resident\":0,"), std::string::npos) << one;
  }
  for (const char *request : {"0\n", "-1\n", "two\n", "1 2\n", "1000001\n", "9"}) {
    std::ofstream(folder.file("in")) << request;
    expectError("--bench", 2, "number of steps");
  }
}

TEST_F(Runner, Describes) {
  Outcome outcome = run("--describe");
  EXPECT_EQ(outcome.code, 0);
  EXPECT_NE(outcome.out.find("program evaluate"), std::string::npos) << outcome.out;
  outcome = run("--help");
  EXPECT_EQ(outcome.code, 0);
  EXPECT_NE(outcome.out.find("--momentum"), std::string::npos);
  EXPECT_EQ(outcome.out.find("--beta1"), std::string::npos);
}

TEST_F(Runner, WithoutAModelSaysWhatToDo) {
  Outcome outcome = finish(start(TAPEOUT_RUNNER, "--describe"));
  EXPECT_EQ(outcome.code, 65);
  EXPECT_NE(outcome.error.find("compile"), std::string::npos) << outcome.error;
  std::vector<uint8_t> kernels = kernelBytes();
  ASSERT_TRUE(writePackage(TAPEOUT_RUNNER, {{SectionKind::CpuKernels, "", kernels, ""}}, executable).isOk());
  expectError("--describe", 66, "holds no plan");
}

TEST_F(Runner, ReadsAStandalonePlan) {
  writeTestPackage(folder, bigramPlan());
  std::string arguments = "--plan @model --generate hello --tokens 5 --top-k 3";
  Outcome first = finish(start(TAPEOUT_RUNNER, arguments)), second = finish(start(TAPEOUT_RUNNER, arguments));
  EXPECT_EQ(first.code, 0) << first.error;
  EXPECT_EQ(first.out.size(), 11u);
  EXPECT_EQ(first.out.substr(0, 5), "hello");
  EXPECT_EQ(first.out, second.out);
}

TEST_F(Runner, NeedsOnlyTheCLibrary) {
#ifdef __SANITIZE_ADDRESS__
  GTEST_SKIP() << "sanitizers bring libraries of their own";
#endif
  Outcome outcome = finish(start("/usr/bin/ldd", TAPEOUT_RUNNER));
  ASSERT_EQ(outcome.code, 0) << outcome.error;
  std::istringstream lines(outcome.out);
  for (std::string library, rest; lines >> library && std::getline(lines, rest);) {
    std::string name = library.substr(library.rfind('/') + 1);
    EXPECT_TRUE(name.starts_with("libc.so") || name.starts_with("libm.so") || name.starts_with("libdl.so") ||
                name.starts_with("libpthread.so") || name.starts_with("ld-linux") || name.starts_with("linux-vdso"))
        << name;
  }
}

} // namespace
} // namespace tapeout::rt
