#include "tests/codegen/KernelTester.h"

namespace tapeout::codegen {
namespace {

TEST(KernelErrorTest, NamesTheOpThatHasNoForm) {
  KernelTester tester(R"(
plan.kernel @k { ^bb0(%a: tensor<4x4xbf16>):
  %r = tape.exp %a : tensor<4x4xbf16>
  tape.yield %r : tensor<4x4xbf16> })");
  EXPECT_FALSE(tester.loaded());
  EXPECT_EQ(tester.messages(), "element type 'bf16' is not supported on the target cpu\n");
}

} // namespace
} // namespace tapeout::codegen
