#include "tests/codegen/KernelTester.h"

namespace tapeout::codegen {
namespace {

TEST(KernelErrorTest, NamesTheOpThatHasNoKernel) {
  KernelTester tester(R"(
plan.kernel @k { ^bb0(%a: tensor<4x4xf32>):
  %r = tape.softmax %a : tensor<4x4xf32>
  tape.yield %r : tensor<4x4xf32> })");
  EXPECT_FALSE(tester.loaded());
  EXPECT_EQ(tester.messages(), "has no kernel for the target cpu\n");
}

} // namespace
} // namespace tapeout::codegen
