#include "tests/codegen/KernelTester.h"

namespace tapeout::codegen {
namespace {

TEST(KernelErrorTest, NamesTheOpThatHasNoForm) {
  KernelTester tester(R"(
plan.kernel @k { ^bb0(%i: tensor<4xi32>):
  %o, %b = tape.sort_ids %i rows 3 : tensor<4xi32>
  tape.yield %o, %b : tensor<4xi32>, tensor<4xi32> })");
  EXPECT_FALSE(tester.loaded());
  EXPECT_EQ(tester.messages(), "has no kernel for the target cpu\n");
}

} // namespace
} // namespace tapeout::codegen
