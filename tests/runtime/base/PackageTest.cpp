#include "runtime/base/Package.h"
#include "tests/runtime/base/TestFolder.h"

#include <sys/stat.h>

using namespace tapeout;

namespace {

std::span<const uint8_t> bytesOf(const std::string &text) {
  return {reinterpret_cast<const uint8_t *>(text.data()), text.size()};
}

class PackageTest : public TestFolder {
protected:
  void SetUp() override {
    TestFolder::SetUp();
    runner_ = put("runner", std::string(5000, 'r'));
  }

  /// A runner of 5000 bytes, a plan, kernels from a file, an empty section, weights.
  Status writeSample(const std::string &runner) {
    return writePackage(runner,
                        {{SectionKind::Plan, "cpu", bytesOf(plan_), ""},
                         {SectionKind::CpuKernels, "cpu", {}, put("kernels.so", kernels_)},
                         {SectionKind::CpuKernels, "empty", {}, ""},
                         {SectionKind::Weights, "", bytesOf(weights_), ""}},
                        path("out"));
  }

  std::string runner_;
  std::string plan_ = "the plan", kernels_ = std::string(4096, 'k'), weights_ = "the weights";
};

TEST_F(PackageTest, RoundTrip) {
  Status written = writeSample(runner_);
  ASSERT_TRUE(written.isOk()) << written.message();
  EXPECT_EQ(get("out").substr(0, 5000), get("runner"));
  Result<Package> opened = openPackage(path("out"));
  ASSERT_TRUE(opened.isOk()) << opened.status().message();
  Package package = std::move(*opened);
  ASSERT_EQ(package.sections().size(), 4u);
  auto textOf = [&](SectionKind kind, std::string_view name) {
    const Section *section = package.find(kind, name);
    return section ? std::string(section->bytes.begin(), section->bytes.end()) : "missing";
  };
  EXPECT_EQ(textOf(SectionKind::Plan, "cpu"), plan_);
  EXPECT_EQ(textOf(SectionKind::CpuKernels, "cpu"), kernels_);
  EXPECT_EQ(textOf(SectionKind::CpuKernels, "empty"), "");
  EXPECT_EQ(textOf(SectionKind::Weights, ""), weights_);
  EXPECT_EQ(textOf(SectionKind::Plan, ""), "missing");
  for (const Section &section : package.sections()) {
    EXPECT_EQ(reinterpret_cast<uintptr_t>(section.bytes.data()) % kSectionAlignment, 0u);
    EXPECT_TRUE(package.verify(section).isOk());
  }
}

TEST_F(PackageTest, IsExecutableAndTheSameEveryTime) {
  ASSERT_TRUE(writeSample(runner_).isOk());
  struct stat info;
  ASSERT_EQ(::stat(path("out").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0700, 0700u);
  std::string first = get("out");
  ASSERT_TRUE(writeSample(runner_).isOk());
  EXPECT_EQ(get("out"), first);
}

TEST_F(PackageTest, MayHaveNoRunnerAndNoSections) {
  ASSERT_TRUE(writeSample("").isOk());
  Result<Package> package = openPackage(path("out"));
  ASSERT_TRUE(package.isOk()) << package.status().message();
  EXPECT_EQ(get("out").substr(0, plan_.size()), plan_);
  ASSERT_TRUE(writePackage(runner_, {}, path("out")).isOk());
  EXPECT_TRUE(openPackage(path("out"))->sections().empty());
}

TEST_F(PackageTest, TheRunnerStillRuns) {
  ASSERT_TRUE(writePackage("/bin/true", {{SectionKind::Plan, "", bytesOf(plan_), ""}}, path("out")).isOk());
  EXPECT_EQ(std::system(path("out").c_str()), 0);
}

TEST_F(PackageTest, FailsCleanly) {
  put("out", "old");
  EXPECT_EQ(writePackage(path("nobody"), {}, path("out")).code(), ExitCode::MissingInput);
  EXPECT_EQ(writePackage(folder_, {}, path("out")).code(), ExitCode::MissingInput);
  EXPECT_EQ(writePackage(runner_, {{SectionKind::Plan, "", {}, path("nobody")}}, path("out")).code(),
            ExitCode::MissingInput);
  EXPECT_EQ(writePackage(runner_, {}, path("no/out")).code(), ExitCode::CannotCreate);
  for (const std::string &name : {std::string(64, 'n'), std::string("a\nb"), std::string("a\0b", 3)})
    EXPECT_FALSE(writePackage(runner_, {{SectionKind::Plan, name, {}, ""}}, path("out")).isOk());
  Status twice =
      writePackage(runner_, {{SectionKind::Plan, "a", {}, ""}, {SectionKind::Plan, "a", {}, ""}}, path("out"));
  EXPECT_NE(twice.message().find("the plan section 'a' is given twice"), std::string::npos);
  EXPECT_EQ(get("out"), "old");
  EXPECT_EQ(fileCount(), 2u); // runner, out
}

TEST_F(PackageTest, LongestNameIsKept) {
  std::string name(kMaxSectionName, 'n');
  ASSERT_TRUE(writePackage("", {{SectionKind::Weights, name, {}, ""}}, path("out")).isOk());
  EXPECT_NE(openPackage(path("out"))->find(SectionKind::Weights, name), nullptr);
}

TEST_F(PackageTest, ABareRunnerIsSaidToBeOne) {
  Result<Package> package = openPackage(runner_);
  ASSERT_FALSE(package.isOk());
  EXPECT_EQ(package.status().code(), ExitCode::BadData);
  EXPECT_NE(package.status().message().find("bare runner"), std::string::npos);
  EXPECT_FALSE(openPackage(put("empty", "")).isOk());
}

TEST_F(PackageTest, EveryTruncationIsRefused) {
  ASSERT_TRUE(writeSample("").isOk());
  std::string whole = get("out");
  for (size_t size = 0; size < whole.size(); size += size + 700 < whole.size() ? 97 : 1) {
    Result<Package> package = openPackage(put("cut", whole.substr(0, size)));
    ASSERT_FALSE(package.isOk()) << size;
    ASSERT_EQ(package.status().code(), ExitCode::BadData);
  }
}

// Runner, padding and weights are not read by openPackage; every other flipped bit is found.
TEST_F(PackageTest, EveryFlippedBitOfTableAndPlanIsFound) {
  ASSERT_TRUE(writeSample("").isOk());
  std::string whole = get("out");
  size_t weights = whole.find(weights_), table = weights + weights_.size();
  auto flippedIsFound = [&](size_t byte, int bit) {
    std::string flipped = whole;
    flipped[byte] = static_cast<char>(flipped[byte] ^ (1 << bit));
    Result<Package> package = openPackage(put("flipped", flipped));
    return !package.isOk() && package.status().code() == ExitCode::BadData;
  };
  for (size_t byte = table; byte < whole.size(); ++byte)
    ASSERT_TRUE(flippedIsFound(byte, static_cast<int>(byte % 8))) << byte;
  for (size_t byte = 0; byte < plan_.size(); ++byte)
    ASSERT_TRUE(flippedIsFound(byte, static_cast<int>(byte % 8))) << byte;
  EXPECT_TRUE(flippedIsFound(kSectionAlignment + 4095, 7)); // kernels

  whole[weights] = 'T';
  Result<Package> package = openPackage(put("flipped", whole));
  ASSERT_TRUE(package.isOk()) << package.status().message();
  EXPECT_NE(package->verify(*package->find(SectionKind::Weights)).message().find("the weights section does not match"),
            std::string::npos);
}

// Hostile tables with a right hash: the fields themselves are checked.
TEST_F(PackageTest, HostileTablesAreRefused) {
  ASSERT_TRUE(writePackage("",
                           {{SectionKind::Weights, "a", bytesOf(weights_), ""},
                            {SectionKind::Weights, "b", bytesOf(weights_), ""}},
                           path("out"))
                  .isOk());
  const std::string whole = get("out");
  size_t footer = whole.size() - 48, entry = footer - 120; // of section "b"
  auto openWith = [&](size_t at, const std::string &bytes) {
    std::string changed = whole;
    changed.replace(at, bytes.size(), bytes);
    Sha256 hash;
    hash.update(changed.data() + footer - 240, 240);
    hash.update(changed.data() + footer + 32, 16);
    Sha256Digest digest = hash.finish();
    changed.replace(footer, 32, std::string(digest.begin(), digest.end()));
    return openPackage(put("changed", changed)).isOk();
  };
  auto word = [](uint64_t value) { return std::string(reinterpret_cast<const char *>(&value), 8); };
  EXPECT_TRUE(openWith(entry, std::string(1, '\2')));                   // the kind it has
  EXPECT_FALSE(openWith(entry, std::string(1, '\3')));                  // an unknown kind
  EXPECT_FALSE(openWith(entry + 8, "a"));                               // the name of the other
  EXPECT_FALSE(openWith(entry + 8, std::string(64, 'n')));              // no end
  EXPECT_FALSE(openWith(entry + 8, "\x1b"));                            // control character
  EXPECT_TRUE(openWith(entry + 72, word(4096)));                        // the offset it has
  EXPECT_FALSE(openWith(entry + 72, word(0)));                          // overlaps the other
  EXPECT_FALSE(openWith(entry + 72, word(4097)));                       // not aligned
  EXPECT_FALSE(openWith(entry + 72, word(uint64_t{1} << 40)));          // behind the file
  EXPECT_FALSE(openWith(entry + 80, word(whole.size() - 4096)));        // reaches into the table
  EXPECT_FALSE(openWith(entry + 80, word(~uint64_t{0} - 100)));         // wraps around
  EXPECT_FALSE(openWith(footer + 36, std::string("\xff\xff\xff\xff"))); // number of sections
  EXPECT_FALSE(openWith(footer + 32, std::string("\2")));               // version
}

} // namespace
