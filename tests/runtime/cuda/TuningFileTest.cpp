// The file with the choices of library kernels: what was written comes back, anything else is as if there were none.
#include "runtime/device/cuda/TuningFile.h"

#include "tests/runtime/TestPlans.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <functional>

namespace tapeout::rt {
namespace {

using namespace test;
using nlohmann::json;

const TuningIdentity kIdentity{"0123abcd", "NVIDIA H200", 13000, 130100};
const TuningChoices kChoices = {{"f32 f32", {{{0, 1, ~uint64_t(0), 3, 4, 5, 6, 7}}}},
                                {"bf16 f32", {{{8}}}},
                                {"bf16 bias", {{{9}}, /*separate=*/true}}};

TEST(TuningFile, ComesBack) {
  TemporaryFolder folder;
  ASSERT_TRUE(writeTuningFile(folder.file("t"), kIdentity, kChoices).isOk());
  EXPECT_EQ(readTuningFile(folder.file("t"), kIdentity), kChoices);
  EXPECT_TRUE(readTuningFile(folder.file("none"), kIdentity).empty());
}

TEST(TuningFile, HoldsForOneIdentityOnly) {
  TemporaryFolder folder;
  ASSERT_TRUE(writeTuningFile(folder.file("t"), kIdentity, kChoices).isOk());
  const TuningIdentity others[] = {{"0", "NVIDIA H200", 13000, 130100},
                                   {"0123abcd", "NVIDIA H100", 13000, 130100},
                                   {"0123abcd", "NVIDIA H200", 12090, 130100},
                                   {"0123abcd", "NVIDIA H200", 13000, 130000}};
  for (const TuningIdentity &other : others)
    EXPECT_TRUE(readTuningFile(folder.file("t"), other).empty());
}

TEST(TuningFile, HostileContentsAreNothing) {
  TemporaryFolder folder;
  ASSERT_TRUE(writeTuningFile(folder.file("good"), kIdentity, kChoices).isOk());
  const json good = json::parse(readText(folder.file("good")));
  const std::vector<std::function<void(json &)>> damages = {
      [](json &f) { f["format"] = 2; },
      [](json &f) { f["format"] = "1"; },
      [](json &f) { f.erase("device"); },
      [](json &f) { f["plan_hash"] = json::array(); },
      [](json &f) { f.erase("products"); },
      [](json &f) { f["products"] = {1, 2}; },
      [](json &f) { f["products"]["f32 f32"] = 5; },
      [](json &f) { f["products"]["f32 f32"] = std::string(127, '0'); },
      [](json &f) { f["products"]["f32 f32"] = std::string(129, '0'); },
      [](json &f) { f["products"]["f32 f32"] = std::string(127, '0') + "g"; },
      [](json &f) { f["products"]["f32 f32"] = "-" + std::string(127, '0'); },
      [](json &f) { f["products"]["f32 f32"] = "separate " + std::string(127, '0'); },
      [](json &f) { f["products"]["f32 f32"] = "together " + std::string(128, '0'); },
      [](json &f) { f = json::array({f}); },
  };
  for (size_t i = 0; i < damages.size(); ++i) {
    json file = good;
    damages[i](file);
    writeFile(folder.file("t"), file.dump());
    EXPECT_TRUE(readTuningFile(folder.file("t"), kIdentity).empty()) << i;
  }
  for (const std::string &text : {std::string(), std::string("{"), std::string(100000, '['), std::string(5 << 20, ' ')}) {
    writeFile(folder.file("t"), text);
    EXPECT_TRUE(readTuningFile(folder.file("t"), kIdentity).empty());
  }
}

} // namespace
} // namespace tapeout::rt
