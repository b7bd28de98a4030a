// The files of --trace, from a recording whose times are known.
#include "runtime/TraceTable.h"
#include "tests/runtime/TestPlans.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace tapeout::rt {
namespace {

using namespace test;

/// Two products of equal layers, then two kernels.
plan::PlanT twoLayers() {
  plan::PlanT plan = regressionPlan();
  plan.layers = {"blocks.0.mlp2", "loss", "optimizer", "blocks.11.mlp2"};
  auto &instructions = plan.programs[0]->instructions;
  instructions.insert(instructions.begin() + 1, std::make_unique<plan::InstructionT>(*instructions[0]));
  instructions.resize(4);
  instructions[1]->layer = 3;
  for (int i : {0, 1}) {
    instructions[i]->flops = 1'000'000'000;
    instructions[i]->bytes_moved = 1'000'000;
  }
  instructions[2]->bytes_moved = 3'000'000;
  return plan;
}

class Trace : public testing::Test {
protected:
  Trace() : plan(std::move(*Plan::load(serialize(twoLayers())))) {
    steps.first = 7;
    steps.recording = {.means = "a test", .runs = {}, .graphs = GraphCheck{10, 0, 0}, .roofs = {}};
    for (int start : {1000, 1300})
      steps.recording.runs.push_back({&program(), {at(0, "gemm", start, start + 100),
                                                   at(1, "gemm", start + 110, start + 150),
                                                   at(1, "_ZN3lib6reduceILi2EEEvPf", start + 150, start + 200), // a second one
                                                   at(2, "difference", start + 190, start + 220), // overlaps
                                                   at(3, "", start + 250, start + 260)}});
  }
  const plan::Program &program() { return *plan.program("step"); }
  /// Microseconds.
  Activity at(uint32_t instruction, const char *kernel, int begin, int end) {
    auto time = [](int microseconds) { return std::chrono::steady_clock::time_point(std::chrono::microseconds(microseconds)); };
    return {program().instructions()->Get(instruction), kernel, time(begin), time(end)};
  }
  void expectLine(const std::string &text, const std::string &line) {
    EXPECT_NE(("\n" + text).find("\n" + line + "\n"), std::string::npos) << line << "\n--- is not a line of\n" << text;
  }

  Plan plan;
  TracedSteps steps;
};

TEST_F(Trace, SummaryCountsWhatIsIdle) {
  EXPECT_EQ(traceSummary(steps), "trace of steps 7 to 8: by a test\n"
                                 "graph complete: 5 kernels and copies per step; 0 kernels outside of it, 0 copies to the "
                                 "host within it\n"
                                 "step 0.260 ms: busy 0.220, idle between kernels 0.040\n");
  steps.recording.graphs->hostReads = 2;
  steps.recording.graphs->outside = 1;
  expectLine(traceSummary(steps), "graph INCOMPLETE: 5 kernels and copies per step; 1 kernels outside of it, 2 copies to "
                                  "the host within it");
  steps.recording.graphs.reset();
  steps.recording.runs.pop_back();
  EXPECT_EQ(traceSummary(steps), "trace of step 7: by a test\nstep 0.260 ms: busy 0.220, idle between kernels 0.040\n");
}

TEST_F(Trace, TableHasALinePerStepAndKindOfInstruction) {
  const std::string text = traceTable(plan, steps);
  expectLine(text, "       7     0.260     0.220     0.040        5         10.00          30.00              ");
  expectLine(text, "       8     0.260     0.220     0.040        5         10.00          30.00         0.040");
  expectLine(text, "    0.190 ms forward");
  expectLine(text, "    0.190  82.6%      2       3     11    10.5        forward blocks.*.mlp2: matmul 16 x 1 x 8\n"
                   "    0.140                     2                         gemm\n"
                   "    0.050                     1                         lib::reduce");
  expectLine(text, "    0.030  13.0%      1       1    100     0.0        loss loss: difference");
  expectLine(text, "    0.010   4.3%      1       1      0     0.0        loss loss: mean_square");
  EXPECT_EQ(text.find("roofs"), std::string::npos);
}

TEST_F(Trace, TableNamesTheOnlyKernelOfALibraryCall) {
  for (RecordedRun &run : steps.recording.runs)
    run.activities[2].kernel = "gemm";
  expectLine(traceTable(plan, steps), "    0.190  82.6%      2       3     11    10.5        forward blocks.*.mlp2: "
                                      "matmul 16 x 1 x 8 [gemm]");
}

TEST_F(Trace, SharesOfTheNearerRoof) {
  steps.recording.roofs = {.bytesPerSecond = 200e9, .productsPerSecond = {{ElementType::F32, 40e12}}};
  const std::string text = traceTable(plan, steps);
  expectLine(text, "roofs, measured after these steps: copy 200 GB/s, product in f32 40 TFLOP/s");
  expectLine(text, "    0.190  82.6%      2       3     11    10.5   26%  forward blocks.*.mlp2: matmul 16 x 1 x 8");
  expectLine(text, "    0.030  13.0%      1       1    100     0.0   50%  loss loss: difference");
}

TEST_F(Trace, EventsCountAnInstructionOnce) {
  TemporaryFolder folder;
  ASSERT_TRUE(writeTrace(plan, steps, folder.file("t")).isOk());
  EXPECT_EQ(readText(folder.file("t.txt")), traceTable(plan, steps));
  nlohmann::json trace = nlohmann::json::parse(readText(folder.file("t")));
  EXPECT_EQ(trace["graphs"], (nlohmann::json{{"inside", 10}, {"outside", 0}, {"host_reads", 0}}));
  ASSERT_EQ(trace["traceEvents"].size(), 10u);
  const nlohmann::json &first = trace["traceEvents"][6], &second = trace["traceEvents"][7];
  EXPECT_EQ(first["name"], "blocks.11.mlp2");
  EXPECT_EQ(first["args"], (nlohmann::json{{"kernel", "gemm"}, {"instruction", "matmul 16 x 1 x 8"}, {"step", 8},
                                           {"flops", 1'000'000'000}, {"bytes", 1'000'000}}));
  EXPECT_EQ(first["ts"], 410);
  EXPECT_EQ(second["args"]["kernel"], "_ZN3lib6reduceILi2EEEvPf");
  EXPECT_EQ(second["args"]["bytes"], 0);
  EXPECT_EQ(trace["traceEvents"][9]["args"]["kernel"], "mean_square");
}

} // namespace
} // namespace tapeout::rt
