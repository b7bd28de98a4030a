// What of the compiled kernels arrives in the plan.
#include "codegen/PlanWriter.h"
#include "ir/plan/Plan.h"
#include "ir/tape/Tape.h"
#include "runtime/plan_generated.h"

#include "mlir/Parser/Parser.h"

#include <gtest/gtest.h>

namespace tapeout::codegen {
namespace {

TEST(PlanWriterTest, KernelsKeepTheirTensorMaps) {
  mlir::MLIRContext context;
  context.loadDialect<tape::TapeDialect, plan::PlanDialect>();
  auto module = mlir::parseSourceString<mlir::ModuleOp>(R"(
module attributes {plan.arena_bytes = 262144 : i64, plan.persistent_bytes = 0 : i64} {
  %s = plan.slot "arena" "s" tensor<256x256xbf16> at 0
  %t = plan.slot "arena" "t" tensor<256x256xbf16> at 131072
  plan.program @step inputs [] () outputs [] () {
    plan.launch @k (%s) -> (%t)
  }
  plan.kernel @k { ^bb0(%a: tensor<256x256xbf16>):
    %n = tape.negate %a : tensor<256x256xbf16>
    tape.yield %n : tensor<256x256xbf16> }
})", &context);
  ASSERT_TRUE(module);
  const TensorMap first{0, 64, 255, 192, 256, 128, 64}, second{1, 0, 256, 256, 256, 64, 64};
  KernelRecord record{"k", 1, 1, GpuLaunch{0, 1, 128, 0, false, {first, second}}};
  auto bytes = writePlan(*module, {record}, {.target = "cuda"});
  ASSERT_TRUE(succeeded(bytes));
  std::unique_ptr<plan::PlanT> written(plan::GetPlan(bytes->data())->UnPack());
  const auto &maps = written->kernels.at(0)->gpu->tensor_maps;
  ASSERT_EQ(maps.size(), 2u);
  for (auto [map, expected] : {std::pair(maps[0].get(), first), std::pair(maps[1].get(), second)}) {
    EXPECT_EQ(map->argument, expected.argument);
    EXPECT_EQ(map->offset, expected.offset);
    EXPECT_EQ(map->rows, expected.rows);
    EXPECT_EQ(map->columns, expected.columns);
    EXPECT_EQ(map->row_stride, expected.rowStride);
    EXPECT_EQ(map->box_rows, expected.boxRows);
    EXPECT_EQ(map->box_columns, expected.boxColumns);
  }
}

} // namespace
} // namespace tapeout::codegen
