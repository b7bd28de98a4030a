#include "codegen/cuda/CubinCache.h"

#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <fstream>

namespace fs = std::filesystem;

namespace tapeout::codegen {
namespace {

class CubinCacheTest : public testing::Test {
protected:
  void SetUp() override {
    std::string pattern = testing::TempDir() + "tapeout-cache-XXXXXX";
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    folder_ = pattern + "/new";
  }
  void TearDown() override { fs::remove_all(fs::path(folder_).parent_path()); }
  std::string fileOf(const std::string &key) const { return folder_ + "/" + key + ".cubin"; }

  std::string folder_;
};

TEST_F(CubinCacheTest, KeysTellSourcesArchitecturesAndAssemblersApart) {
  std::string key = CubinCache::keyOf("a", "sm_90", "ptxas 1");
  EXPECT_EQ(key.size(), 64u);
  EXPECT_EQ(key, CubinCache::keyOf("a", "sm_90", "ptxas 1"));
  EXPECT_NE(key, CubinCache::keyOf("b", "sm_90", "ptxas 1"));
  EXPECT_NE(key, CubinCache::keyOf("a", "sm_80", "ptxas 1"));
  EXPECT_NE(key, CubinCache::keyOf("a", "sm_90", "ptxas 2"));
}

TEST_F(CubinCacheTest, FindsWhatWasAdded) {
  CubinCache cache(folder_);
  EXPECT_FALSE(cache.find("k"));
  std::string cubin("\x7f" "ELF\0more", 9);
  cache.add("k", cubin);
  EXPECT_EQ(cache.find("k"), cubin);
  EXPECT_FALSE(cache.find("other"));
}

TEST_F(CubinCacheTest, IgnoresDamagedEntries) {
  CubinCache cache(folder_);
  for (const char *damage : {"", "short", "exactly thirty-two bytes of text"}) {
    cache.add("k", "cubin");
    std::ofstream(fileOf("k"), std::ios::binary) << damage;
    EXPECT_FALSE(cache.find("k")) << damage;
  }
  cache.add("k", "cubin");
  std::fstream file(fileOf("k"), std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(33);
  file.put('X');
  file.close();
  EXPECT_FALSE(cache.find("k"));
}

TEST_F(CubinCacheTest, RemovesTheOldestEntries) {
  CubinCache cache(folder_, 250);
  for (int i = 0; i < 4; ++i) {
    std::string key(1, 'a' + i);
    cache.add(key, std::string(68, 'x')); // 100 bytes each
    fs::last_write_time(fileOf(key), fs::file_time_type::clock::now() - std::chrono::hours(10 - i));
  }
  EXPECT_TRUE(cache.find("a")); // used now
  cache.trim();
  EXPECT_TRUE(cache.find("a"));
  EXPECT_FALSE(cache.find("b"));
  EXPECT_FALSE(cache.find("c"));
  EXPECT_TRUE(cache.find("d"));
}

TEST_F(CubinCacheTest, WithoutAFolderKeepsNothing) {
  CubinCache cache("");
  cache.add("k", "cubin");
  EXPECT_FALSE(cache.find("k"));
  CubinCache unwritable("/proc/nowhere");
  unwritable.add("k", "cubin");
  EXPECT_FALSE(unwritable.find("k"));
}

} // namespace
} // namespace tapeout::codegen
