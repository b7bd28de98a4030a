// Graphviz as a child process.
#include "tools/inspect/Graphviz.h"

#include "gtest/gtest.h"

#include <chrono>
#include <filesystem>
#include <fstream>
#include <unistd.h>

namespace tapeout::inspect {
namespace {

class GraphvizTest : public testing::Test {
protected:
  void SetUp() override {
    folder_ = std::filesystem::temp_directory_path() / ("tapeout-graphviz-" + std::to_string(getpid()));
    std::filesystem::create_directory(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  std::string script(const std::string &body) {
    std::string path = folder_ / "dot";
    std::ofstream(path) << "#!/bin/sh\n" << body << "\n";
    std::filesystem::permissions(path, std::filesystem::perms::owner_all);
    return path;
  }

  std::filesystem::path folder_;
};

TEST_F(GraphvizTest, WithoutGraphvizSaysWhatToInstall) {
  Result<std::string> svg = renderSvg("digraph {}", std::chrono::seconds(1), "no-such-program-at-all");
  ASSERT_FALSE(svg.isOk());
  EXPECT_EQ(svg.status().code(), ExitCode::Unavailable);
  EXPECT_NE(svg.status().message().find("install the package graphviz or use --format dot"), std::string::npos);
}

TEST_F(GraphvizTest, IsKilledAfterTheLimit) {
  auto start = std::chrono::steady_clock::now();
  Result<std::string> svg = renderSvg("digraph {}", std::chrono::milliseconds(200), script("exec sleep 30"));
  ASSERT_FALSE(svg.isOk());
  EXPECT_EQ(svg.status().code(), ExitCode::Failed);
  EXPECT_NE(svg.status().message().find("0.2 s"), std::string::npos) << svg.status().message();
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(10));
}

TEST_F(GraphvizTest, CrashesAndHalfOutputAreErrors) {
  EXPECT_EQ(renderSvg("", std::chrono::seconds(5), script("echo '<svg></svg>'; kill -SEGV $$")).status().code(),
            ExitCode::Failed);
  EXPECT_EQ(renderSvg("", std::chrono::seconds(5), script("echo '<svg></svg>'; exit 3")).status().code(),
            ExitCode::Failed);
  EXPECT_EQ(renderSvg("", std::chrono::seconds(5), script("echo '<svg>'")).status().code(), ExitCode::Failed);
}

TEST_F(GraphvizTest, LargeTextGoesInAndComesOutWhole) {
  std::string text(4 << 20, 'x');
  text += "</svg>";
  Result<std::string> svg = renderSvg(text, std::chrono::seconds(20), script("exec cat"));
  ASSERT_TRUE(svg.isOk()) << svg.status().message();
  EXPECT_EQ(*svg, text);
}

} // namespace
} // namespace tapeout::inspect
