// `tapeout compile --target cuda` on a machine with or without NVIDIA's toolkit: the models compile, and where ptxas is
// there (TAPEOUT_PTXAS) it finds registers enough for every kernel.
#include "tests/e2e/Process.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <regex>
#include <sstream>

namespace tapeout::e2e {
namespace {

class CudaCompileTest : public testing::TestWithParam<const char *> {
protected:
  void SetUp() override {
    std::string pattern = testing::TempDir() + "tapeout-cuda-XXXXXX";
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
    ::setenv("XDG_CACHE_HOME", (folder_ + "/cache").c_str(), 1);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  /// Words separated by spaces; "@name" is a file of the test's folder.
  Outcome run(const std::string &program, const std::string &text) {
    std::vector<std::string> words = {program};
    std::istringstream stream(text);
    for (std::string word; stream >> word;)
      words.push_back(word[0] == '@' ? folder_ + "/" + word.substr(1) : word);
    return Process(words, folder_ + "/last").wait();
  }
  Outcome tapeout(const std::string &text) { return run(TAPEOUT_BINARY, text); }
  std::vector<std::string> ptxFiles() {
    std::vector<std::string> files;
    for (const auto &entry : std::filesystem::directory_iterator(folder_ + "/ir"))
      if (entry.path().extension() == ".ptx")
        files.push_back(entry.path());
    return files;
  }

  /// Compiles a model with heads of 64 elements in mixed precision; returns the modules with products of Hopper GPUs.
  std::vector<std::string> hopperModules(const std::string &options, int batch = 4) {
    EXPECT_EQ(tapeout("model gpt --layers 2 --width 128 --heads 2 --vocab 64 --context 64 -o @m.tape").code, 0);
    std::filesystem::remove_all(folder_ + "/ir");
    Outcome outcome = tapeout(fmt::format("compile @m.tape -o @m --batch {} --save-ir @ir {}", batch, options));
    EXPECT_EQ(outcome.code, 0) << outcome.error;
    std::vector<std::string> files;
    for (const std::string &file : ptxFiles())
      if (readFile(file).find("wgmma") != std::string::npos)
        files.push_back(file);
    return files;
  }

  std::string folder_;
};

constexpr const char *kModels[] = {
    "mlp", "gpt", "llama --layers 2", "bert --layers 2",
    "gpt2-124m --layers 2", // long rows: the vocabulary; and wide ones
    "vit-b16 --image 32 --layers 1",
};

#ifndef TAPEOUT_PTXAS

TEST_P(CudaCompileTest, EveryKernelHasAForm) {
  ASSERT_EQ(tapeout(fmt::format("model {} -o @m.tape", GetParam())).code, 0);
  Outcome outcome = tapeout("compile @m.tape -o @m --batch 4 --target cuda:sm_90,sm_80 --save-ir @ir");
  ASSERT_EQ(outcome.code, 0) << outcome.error;
  EXPECT_NE(outcome.out.find("for cuda:sm_80,sm_90"), std::string::npos) << outcome.out;
  EXPECT_FALSE(ptxFiles().empty());
  for (const std::string &file : ptxFiles()) {
    std::string ptx = readFile(file);
    EXPECT_NE(ptx.find(".target sm_80"), std::string::npos) << "one text serves both";
    EXPECT_EQ(ptx.find(".local"), std::string::npos) << file;
    EXPECT_EQ(ptx.find(".extern .func"), std::string::npos) << "a function that the GPU has not: " << file;
  }
}

// For the gradient of attention, in two modules that layers of one shape share.
TEST_F(CudaCompileTest, HopperGpusHaveKernelsOfTheirOwn) {
  EXPECT_EQ(hopperModules("--precision bf16 --target cuda:sm_90").size(), 2u);
  EXPECT_EQ(hopperModules("--precision fp16 --target cuda:sm_90").size(), 2u);
  EXPECT_EQ(hopperModules("--target cuda:sm_90").size(), 0u);
  EXPECT_EQ(hopperModules("--precision bf16 --target cuda:sm_80,sm_90").size(), 0u);
  EXPECT_EQ(hopperModules("--precision bf16 --target cuda:sm_90 --skip-pass select-attention-kernels").size(), 0u);
}

// Of large products around a GELU, too, in one module for each.
TEST_F(CudaCompileTest, LargeProductsAroundGeluHaveKernelsOfTheirOwn) {
  EXPECT_EQ(hopperModules("--precision bf16 --target cuda:sm_90", 400).size(), 4u);
  EXPECT_EQ(hopperModules("--precision fp16 --amp-level O2 --target cuda:sm_90", 400).size(), 4u);
  EXPECT_EQ(hopperModules("--precision bf16 --target cuda:sm_80,sm_90", 400).size(), 0u);
  EXPECT_EQ(hopperModules("--precision bf16 --target cuda:sm_90 --skip-pass select-product-kernels", 400).size(), 2u);
}

// Only a Hopper GPU could run them.
TEST_F(CudaCompileTest, TheGpuOfThisMachineDecides) {
  ::setenv("LD_LIBRARY_PATH", TAPEOUT_FAKE_GPU, 1);
  for (auto [gpu, modules] : {std::pair("90", 2u), std::pair("100", 0u), std::pair("120", 0u), std::pair("89", 0u)}) {
    ::setenv("TAPEOUT_FAKE_GPU", gpu, 1);
    EXPECT_EQ(hopperModules("--precision bf16 --target cuda").size(), modules) << gpu;
  }
  ::unsetenv("LD_LIBRARY_PATH");
}

TEST_F(CudaCompileTest, TheSameBytesForAnyNumberOfThreadsAndFromTheCache) {
  ASSERT_EQ(tapeout("model gpt --layers 1 -o @m.tape").code, 0);
  ASSERT_EQ(tapeout("compile @m.tape -o @a --target cuda:sm_90 --threads 1").code, 0);
  ASSERT_EQ(tapeout("compile @m.tape -o @b --target cuda:sm_90 --threads 3").code, 0);
  EXPECT_EQ(readFile(folder_ + "/a"), readFile(folder_ + "/b"));
}

// Kernels of rows that reduce bands besides: of long rows, and of rows that nobody wants.
TEST_F(CudaCompileTest, WideModelsAndFrozenOnes) {
  ASSERT_EQ(tapeout("model gpt --layers 1 --width 2560 --heads 40 --vocab 64 --context 64 -o @wide.tape").code, 0);
  ASSERT_EQ(tapeout("model gpt --layers 1 --width 64 --heads 4 --vocab 128 --context 64 -o @frozen.tape").code, 0);
  for (const char *precision : {"fp32", "bf16"}) {
    std::string options = fmt::format(" --plan-only -o @plan --batch 32 --target cuda:sm_90 --precision {}", precision);
    Outcome wide = tapeout("compile @wide.tape" + options);
    EXPECT_EQ(wide.code, 0) << wide.error;
    Outcome frozen = tapeout("compile @frozen.tape --freeze *.weight *ln1* *qkv* *wte* *wpe*" + options);
    EXPECT_EQ(frozen.code, 0) << frozen.error;
  }
}

// Columns of a slice, in parts that its rows divide: sums over the patches of 128 images.
TEST_F(CudaCompileTest, ManyImages) {
  ASSERT_EQ(tapeout("model vit-b16 --layers 1 -o @vit.tape").code, 0);
  for (const char *precision : {"fp32", "bf16"}) {
    Outcome vit = tapeout(fmt::format("compile @vit.tape --plan-only -o @plan --batch 128 --target cuda:sm_90 --precision {}", precision));
    EXPECT_EQ(vit.code, 0) << vit.error;
  }
}

TEST_F(CudaCompileTest, RefusesWhatHasNoForm) {
  ASSERT_EQ(tapeout("model lenet -o @m.tape").code, 0);
  Outcome outcome = tapeout("compile @m.tape -o @m --target cuda");
  EXPECT_EQ(outcome.code, 1);
  EXPECT_NE(outcome.error.find("layer 'conv1': 'convolution' has no form on the target cuda; compile with --target cpu"),
            std::string::npos) << outcome.error;
  EXPECT_FALSE(std::filesystem::exists(folder_ + "/m"));
}

TEST_F(CudaCompileTest, UnknownTargetsAreUsageErrors) {
  ASSERT_EQ(tapeout("model mlp -o @m.tape").code, 0);
  for (const char *target : {"tpu", "cuda:", "cuda:90", "cuda:sm_90,", "cuda:sm_75", "cuda:sm_90,sm_9000"}) {
    Outcome outcome = tapeout(fmt::format("compile @m.tape -o @m --target {}", target));
    bool trailing = std::string(target) == "cuda:sm_90,"; // an empty last name is none
    EXPECT_EQ(outcome.code, trailing ? 0 : 2) << target << " " << outcome.error;
    EXPECT_EQ(outcome.error.find("--target") != std::string::npos, !trailing) << outcome.error;
  }
}

TEST_F(CudaCompileTest, InspectShowsThePlanOfTheTarget) {
  ASSERT_EQ(tapeout("model mlp -o @m.tape").code, 0);
  Outcome cpu = tapeout("inspect @m.tape --target cpu"), cuda = tapeout("inspect @m.tape --target cuda");
  EXPECT_NE(cpu.out.find("epilogue"), std::string::npos);
  EXPECT_EQ(cuda.out.find("columns ="), std::string::npos) << "of a kernel that takes a product by pieces";
  EXPECT_NE(cuda.out.find("tape.target = \"cuda\""), std::string::npos);
}

#else

TEST_P(CudaCompileTest, KernelsFitIntoRegisters) {
  ASSERT_EQ(tapeout(fmt::format("model {} -o @m.tape", GetParam())).code, 0);
  Outcome outcome = tapeout("compile @m.tape -o @m --batch 4 --target cuda:sm_90 --save-ir @ir");
  ASSERT_EQ(outcome.code, 0) << outcome.error;
  EXPECT_NE(outcome.out.find("by ptxas"), std::string::npos) << outcome.out;
  size_t kernels = 0;
  for (const std::string &file : ptxFiles()) {
    Outcome assembled = run(TAPEOUT_PTXAS, "-v -O3 -arch=sm_90 -o @cubin " + file);
    EXPECT_EQ(assembled.code, 0) << assembled.error;
    std::regex usage("(\\d+) bytes stack frame, (\\d+) bytes spill stores, (\\d+) bytes spill loads");
    for (std::sregex_iterator it(assembled.error.begin(), assembled.error.end(), usage), end; it != end; ++it, ++kernels)
      EXPECT_EQ(it->str(), "0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads") << assembled.error;
  }
  EXPECT_GT(kernels, 10u);
}

// With warnings of the assembler, the products of a kernel would wait for each other.
// Machine code is all that runs: PTX of other kernels would let an older or newer GPU begin.
TEST_F(CudaCompileTest, HopperGpusAreNamedBySuchExecutables) {
  EXPECT_EQ(hopperModules("--precision bf16 --target cuda:sm_90").size(), 2u);
  EXPECT_EQ(run(folder_ + "/m", "--describe").out.find("PTX"), std::string::npos);
  EXPECT_EQ(hopperModules("--target cuda:sm_90").size(), 0u);
  EXPECT_NE(run(folder_ + "/m", "--describe").out.find("PTX"), std::string::npos);
}

TEST_F(CudaCompileTest, ProductsOfHopperGpusOverlap) {
  for (const char *precision : {"bf16", "fp16"}) {
    std::vector<std::string> modules = hopperModules(fmt::format("--precision {} --target cuda:sm_90", precision));
    EXPECT_EQ(modules.size(), 2u);
    for (const std::string &file : modules) {
      Outcome assembled = run(TAPEOUT_PTXAS, "-v -O3 -arch=sm_90a -o @cubin " + file);
      EXPECT_EQ(assembled.code, 0) << assembled.error;
      const std::string none = "0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads";
      EXPECT_NE(assembled.error.find(none), std::string::npos) << assembled.error;
      EXPECT_EQ(assembled.error.find("Potential Performance Loss"), std::string::npos) << assembled.error;
    }
  }
}

#endif

INSTANTIATE_TEST_SUITE_P(Models, CudaCompileTest, testing::ValuesIn(kModels), [](const auto &info) {
  return std::regex_replace(info.param, std::regex("[^a-z0-9]+.*"), std::string()); // the model without its options
});

} // namespace
} // namespace tapeout::e2e
