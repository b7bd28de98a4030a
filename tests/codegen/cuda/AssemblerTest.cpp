// Part of the tests where NVIDIA's toolkit is found.
#include "codegen/cuda/Assembler.h"
#include "codegen/cuda/NvJitLink.h"
#include "tests/codegen/cuda/TensorMapKernel.h"

#include <gtest/gtest.h>

#include <vector>

namespace tapeout::codegen {
namespace {

constexpr char kPtx[] = ".version 8.3\n.target sm_80\n.address_size 64\n.visible .entry k()\n{\n\tret;\n}\n";

std::vector<std::unique_ptr<Assembler>> assemblers() {
  std::vector<std::unique_ptr<Assembler>> found;
  found.push_back(findAssembler());
  EXPECT_TRUE(found.front());
  if (std::unique_ptr<Assembler> library = findNvJitLink())
    found.push_back(std::move(library));
  return found;
}

TEST(AssemblerTest, MakesElfFilesOfEachArchitecture) {
  for (auto &assembler : assemblers()) {
    SCOPED_TRACE(assembler->name());
    std::string last;
    for (unsigned architecture : {80, 90}) {
      Result<std::string> cubin = assembler->assemble(kPtx, "sm_" + std::to_string(architecture));
      ASSERT_TRUE(cubin.isOk()) << cubin.status().message();
      EXPECT_EQ(cubin->substr(0, 4), "\x7f" "ELF");
      EXPECT_NE(*cubin, last);
      last = *cubin;
    }
  }
}

TEST(AssemblerTest, TakesTensorMapsThatStayParameters) {
  const std::string ptx = tensorMapPtx();
  for (auto &assembler : assemblers()) {
    Result<std::string> cubin = assembler->assemble(ptx, "sm_90a");
    EXPECT_TRUE(cubin.isOk()) << cubin.status().message();
  }
}

TEST(AssemblerTest, SaysWhatIsWrong) {
  for (auto &assembler : assemblers()) {
    Result<std::string> broken = assembler->assemble(std::string(kPtx) + "nonsense", "sm_90");
    ASSERT_FALSE(broken.isOk());
    EXPECT_NE(broken.status().message().find("cannot assemble the kernels"), std::string::npos) << broken.status().message();
    EXPECT_NE(broken.status().message().find("yntax"), std::string::npos) << broken.status().message();
    EXPECT_FALSE(assembler->assemble(kPtx, "sm_12").isOk()) << "there is no sm_12";
  }
}

} // namespace
} // namespace tapeout::codegen
