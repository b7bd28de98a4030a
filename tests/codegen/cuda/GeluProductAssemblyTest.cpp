// The kernels of codegen/cuda/device/GeluProduct.cpp as machine code, where NVIDIA's toolkit is found.
#include "codegen/cuda/HandWritten.h"

#include "llvm/IR/LLVMContext.h"
#include "llvm/IR/Module.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <regex>

namespace tapeout::codegen {
namespace {

class GeluProductAssemblyTest : public testing::Test {
protected:
  GeluProductAssemblyTest() {
    std::string name = testing::TempDir() + "gelu-product-XXXXXX";
    folder_ = mkdtemp(name.data());
  }
  ~GeluProductAssemblyTest() override { std::filesystem::remove_all(folder_); }

  std::string ptxOf(const GeluProduct &product) {
    llvm::LLVMContext context;
    HandWrittenKernel built = buildGeluProduct(product, "k", context);
    kernel_ = built.kernel;
    return emitPtx(*built.module, "sm_90a", {{built.bound}});
  }
  /// What ptxas says.
  std::string assemble(const std::string &ptx) {
    std::ofstream(folder_ + "/k.ptx") << ptx;
    const std::string command =
        std::string(TAPEOUT_PTXAS) + " -v -O3 -arch=sm_90a -o " + folder_ + "/k.cubin " + folder_ + "/k.ptx 2>&1";
    FILE *pipe = popen(command.c_str(), "r");
    std::string said;
    for (int c; (c = fgetc(pipe)) != EOF;)
      said += char(c);
    EXPECT_EQ(pclose(pipe), 0) << said;
    return said;
  }

  std::string folder_;
  CudaKernel kernel_;
};

// With spills or such warnings of the assembler, products would wait.
TEST_F(GeluProductAssemblyTest, SumsStayInRegistersAndProductsOverlap) {
  for (GeluProduct::Kind kind : {GeluProduct::kTanh, GeluProduct::kErf, GeluProduct::kScaled})
    for (auto [byInner, bf16] : {std::pair(false, true), {true, true}, {true, false}}) {
      const std::string said = assemble(ptxOf({kind, byInner, bf16, {65536, 3072, 768}}));
      EXPECT_NE(said.find("0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads"), std::string::npos)
          << kind << byInner << said;
      EXPECT_EQ(said.find("Potential Performance Loss"), std::string::npos) << kind << byInner << said;
    }
}

TEST_F(GeluProductAssemblyTest, OtherSizesNeedNoMoreRegisters) {
  for (const GeluProductSizes &sizes : {GeluProductSizes{1000, 128, 64}, {8192, 6400, 1600}})
    for (GeluProduct::Kind kind : {GeluProduct::kTanh, GeluProduct::kErf, GeluProduct::kScaled})
      EXPECT_NE(assemble(ptxOf({kind, false, true, sizes})).find(", 0 bytes spill stores"), std::string::npos)
          << kind << " " << sizes.tokens;
}

TEST_F(GeluProductAssemblyTest, MapsLieBehindThePointersOfAllArguments) {
  for (GeluProduct::Kind kind : {GeluProduct::kTanh, GeluProduct::kScaled}) {
    const std::string ptx = ptxOf({kind, true, true, {161, 256, 64}});
    for (int i = 0; i < 9; ++i) {
      const std::string number = "k_param_" + std::to_string(i);
      const std::regex parameter(i < 5 ? "\\.param \\.u64 (\\.ptr .*)?" + number + "\\b"
                                       : "\\.param \\.align 64 \\.b8 " + number + "\\[128\\]");
      EXPECT_TRUE(std::regex_search(ptx, parameter)) << i << ptx.substr(0, 1000);
    }
    EXPECT_EQ(ptx.find(".local"), std::string::npos) << "a copy of a map";
    EXPECT_EQ(kernel_.argumentCount, 5u);
    ASSERT_EQ(kernel_.tensorMaps.size(), 4u);
    EXPECT_EQ(kernel_.tensorMaps[1].rows, 64) << "weights, features behind each other";
    EXPECT_EQ(kernel_.tensorMaps[1].columns, 256);
    EXPECT_EQ(kernel_.tensorMaps[2].argument, kind == GeluProduct::kScaled ? 2u : 3u) << "slope or result";
    EXPECT_EQ(kernel_.tensorMaps[2].rows, 161);
    EXPECT_EQ(kernel_.blocks, 4u) << "a block for each tile";
    EXPECT_EQ(kernel_.threads, uint32_t(kProductThreads));
  }
  ptxOf({GeluProduct::kTanh, true, true, {65536, 3072, 768}});
  EXPECT_EQ(kernel_.blocks, 132u);
}

} // namespace
} // namespace tapeout::codegen
