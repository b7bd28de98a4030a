// Two executables against each other, and what is said about them.
#include "runtime/base/Package.h"
#include "tests/runtime/TestPlans.h"
#include "tools/bench/Bench.h"
#include "tools/bench/Report.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <cmath>

namespace tapeout::bench {
namespace {

constexpr Roofs kRoofs{.bytesPerSecond = 1e10, .flopsPerSecond = 1e11};

class BenchTest : public testing::Test {
protected:
  void SetUp() override {
    rt::test::writeRegressionData(folder, 100);
    std::vector<uint8_t> plan = rt::test::serialize(rt::test::regressionPlan()), kernels = rt::test::kernelBytes();
    for (const Subject &subject : subjects)
      ASSERT_TRUE(writePackage(TAPEOUT_RUNNER, {{SectionKind::Plan, "", plan, ""}, {SectionKind::CpuKernels, "", kernels, ""}},
                               subject.path)
                      .isOk());
  }

  void expectError(const std::vector<Subject> &wrong, ExitCode code, const std::string &part) {
    Result<Report> report = measure(wrong, options, kRoofs);
    ASSERT_FALSE(report.isOk());
    EXPECT_EQ(report.status().code(), code) << report.status().message();
    EXPECT_NE(report.status().message().find(part), std::string::npos) << report.status().message();
  }

  rt::test::TemporaryFolder folder;
  std::vector<Subject> subjects = {{"one", folder.file("a")}, {"<two>", folder.file("b")}};
  MeasureOptions options{.data = folder.file("x.npy"), .labels = folder.file("y.npy"), .threads = 1, .steps = 7};
};

TEST(StatisticsTest, PercentilesAreInterpolated) {
  Statistics statistics = statisticsOf({5, 1, 4, 2, 3});
  EXPECT_EQ(statistics.median, 3);
  EXPECT_EQ(statistics.least, 1);
  EXPECT_DOUBLE_EQ(statistics.p10, 1.4);
  EXPECT_DOUBLE_EQ(statistics.p90, 4.6);
  EXPECT_EQ(statisticsOf({2}).p90, 2);
}

TEST_F(BenchTest, MeasuresBothOnTheSameSteps) {
  Result<Report> report = measure(subjects, options, kRoofs);
  ASSERT_TRUE(report.isOk()) << report.status().message();
  EXPECT_EQ(report->steps, 10u); // whole blocks
  ASSERT_EQ(report->measured.size(), 2u);
  const Measured &one = report->measured[0], &two = report->measured[1];
  EXPECT_EQ(one.model, "regression");
  EXPECT_EQ(one.threads, 1);
  EXPECT_GT(one.launches, 0u);
  EXPECT_EQ(one.arenaPlanned, 128u);
  EXPECT_GE(one.arenaResident, 4096u);
  EXPECT_GT(one.processPeak, one.arenaResident);
  EXPECT_GT(one.loss, 0);
  EXPECT_EQ(one.loss, two.loss);
  EXPECT_GT(one.seconds.least, 0);
  EXPECT_GT(one.processorSeconds.least, 0);
  EXPECT_LT(one.processorSeconds.least, 1.5 * one.seconds.p90); // of one thread
  EXPECT_LE(one.seconds.least, one.seconds.p10);
  EXPECT_LE(one.seconds.p10, one.seconds.median);
  EXPECT_LE(one.seconds.median, one.seconds.p90);
  EXPECT_DOUBLE_EQ(one.memoryRoofShare, static_cast<double>(one.bytesMoved) / one.seconds.median / kRoofs.bytesPerSecond);
  ASSERT_TRUE(report->ratio);
  EXPECT_GT(report->ratio->median, 0);
  EXPECT_EQ(one.bytesMissed.has_value(), report->noCounter.empty());
}

TEST_F(BenchTest, OneAloneHasNoRatio) {
  Result<Report> report = measure({subjects[0]}, options, kRoofs);
  ASSERT_TRUE(report.isOk()) << report.status().message();
  EXPECT_FALSE(report->ratio);
  EXPECT_EQ(tableOf(*report).find("10% to 90% of the pairs"), std::string::npos);
}

TEST_F(BenchTest, FailuresOfTheExecutablesArePassedOn) {
  expectError({subjects[0], {"x", folder.file("none")}}, ExitCode::MissingInput, "none cannot be started");
  expectError({{"x", folder.file("x.npy")}}, ExitCode::MissingInput, "x.npy cannot be started");
  expectError({{"x", "/bin/true"}}, ExitCode::Failed, "/bin/true has stopped with exit code 0");
  expectError({{"x", "/bin/echo"}}, ExitCode::BadData, "/bin/echo");
  options.data = folder.file("missing.npy");
  expectError(subjects, ExitCode::MissingInput, "has stopped with exit code 66");
}

/// Numbers that are easy to find again.
Report exampleReport() {
  Report report;
  report.processor = "Example 1";
  report.roofs = {2e10, 3e12};
  report.steps = 100;
  report.blockSteps = 5;
  for (double factor : {2.0, 1.0}) {
    Measured measured;
    measured.label = factor == 2 ? "<old>" : "new";
    measured.model = "gpt";
    measured.isa = "avx2";
    measured.batch = 12;
    measured.threads = 4;
    measured.launches = static_cast<uint64_t>(100 * factor);
    measured.bytesMoved = static_cast<uint64_t>(3 * factor) << 20;
    measured.seconds = {0.5e-3 * factor, 0.4e-3 * factor, 0.45e-3 * factor, 0.6e-3 * factor};
    measured.processorSeconds.median = 3 * factor;
    measured.memoryRoofShare = 0.25;
    measured.loss = 1.5;
    report.measured.push_back(measured);
  }
  report.ratio = Statistics{2, 1.9, 1.95, 2.125};
  report.noCounter = "there is none";
  return report;
}

TEST(ReportTest, TheTableHasTheNumbersAndTheirQuotients) {
  std::string table = tableOf(exampleReport());
  for (const char *part : {"gpt: batch 12, 4 threads, avx2; 100 steps each, alternating in blocks of 5",
                           "Example 1; roofs: memory 20.0 GB/s, arithmetic 3000 GFLOP/s",
                           "step, median            1.00 ms                 500.0 µs                2.00x\n",
                           "processor time, median  6.000 s                 3.000 s                 2.00x\n",
                           "kernel launches         200                     100                     2.00x\n",
                           "bytes moved (model)     6.00 MiB                3.00 MiB                2.00x\n",
                           "of the memory roof      25.0%                   25.0%\n",
                           "<old> / new: 2.00 (10% to 90% of the pairs of blocks: 1.95 - 2.12)\n",
                           "no row for bytes by hardware counters: there is none\n"})
    EXPECT_NE(table.find(part), std::string::npos) << part << "\n" << table;
  EXPECT_EQ(table.find("bytes missed"), std::string::npos) << table;
  Report counted = exampleReport();
  counted.noCounter.clear();
  counted.measured[0].bytesMissed = counted.measured[1].bytesMissed = 1 << 20;
  EXPECT_NE(tableOf(counted).find("bytes missed (counted)  1.00 MiB                1.00 MiB                1.00x\n"),
            std::string::npos);
}

TEST(ReportTest, JsonHasEveryNumber) {
  nlohmann::json json = nlohmann::json::parse(jsonOf(exampleReport()));
  EXPECT_EQ(json.at("executables").at(0).at("seconds").at("median"), 1e-3);
  EXPECT_EQ(json.at("executables").at(1).at("bytes_moved"), 3 << 20);
  EXPECT_FALSE(json.at("executables").at(0).contains("bytes_missed"));
  EXPECT_EQ(json.at("ratio").at("p90"), 2.125);
  EXPECT_EQ(json.at("roofs").at("bytes_per_second"), 2e10);
  EXPECT_EQ(json.at("no_counter"), "there is none");
}

TEST(ReportTest, BarsAreAsLongAsTheirValues) {
  std::string plot = plotOf(exampleReport());
  EXPECT_NE(plot.find("&lt;old&gt;"), std::string::npos);
  EXPECT_EQ(plot.find("<old>"), std::string::npos);
  EXPECT_NE(plot.find("prefers-color-scheme: dark"), std::string::npos);
  EXPECT_NE(plot.find("width=\"380.0\" height=\"14\"/><text x=\"526.0\" y=\"73\">1 ms</text>"), std::string::npos) << plot;
  EXPECT_NE(plot.find("width=\"190.0\" height=\"14\"/><text x=\"336.0\" y=\"89\">0.5 ms</text>"), std::string::npos) << plot;
}

TEST(RoofsTest, AreNumbersOfARealMachine) {
  Result<Roofs> roofs = measureRoofs(1);
  ASSERT_TRUE(roofs.isOk()) << roofs.status().message();
  EXPECT_GT(roofs->bytesPerSecond, 1e8);
  EXPECT_LT(roofs->bytesPerSecond, 1e13);
  EXPECT_GT(roofs->flopsPerSecond, 1e8);
  EXPECT_LT(roofs->flopsPerSecond, 1e13);
}

} // namespace
} // namespace tapeout::bench
