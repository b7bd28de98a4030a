#include "runtime/io/Checkpoint.h"

#include "runtime/base/Sha256.h"
#include "tests/runtime/io/TestFiles.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <chrono>
#include <csignal>
#include <random>
#include <sys/resource.h>
#include <sys/wait.h>
#include <thread>

namespace fs = std::filesystem;

namespace tapeout::rt {
namespace {

using namespace test;

/// A training state whose every element is the step, so that mixed-up files are noticed.
struct TrainingState {
  explicit TrainingState(uint64_t step, size_t elements = 100) : weights(elements, static_cast<float>(step)) {
    counter = step;
    contents.manifest = {step, "plan-a", {{"lr", 0.1}, {"seed", 42}}, {3, 1000 + step}, {{"data", "text.txt"}}};
    contents.tensors = {{"step", ElementType::I64, {}, {reinterpret_cast<uint8_t *>(&counter), 8}},
                        {"layer.weight",
                         ElementType::F32,
                         {2, static_cast<int64_t>(elements / 2)},
                         {reinterpret_cast<uint8_t *>(weights.data()), elements * 4}}};
  }
  TrainingState(const TrainingState &) = delete;

  std::vector<float> weights;
  uint64_t counter;
  CheckpointContents contents;
};

Status save(const std::string &directory, uint64_t step, int keep = 10) {
  return saveCheckpoint(directory, TrainingState(step).contents, keep);
}

void expectStep(const Result<LoadedCheckpoint> &loaded, uint64_t step) {
  ASSERT_TRUE(loaded.isOk()) << loaded.status().message();
  EXPECT_EQ(loaded->manifest.step, step);
  ASSERT_EQ(loaded->tensors.size(), 2u);
  EXPECT_EQ(values<uint64_t>(loaded->tensors[1].bytes), (std::vector<uint64_t>{step}));
  for (float weight : values<float>(loaded->tensors[0].bytes))
    ASSERT_EQ(weight, static_cast<float>(step));
}

std::vector<std::string> entries(const std::string &directory) {
  std::vector<std::string> names;
  for (const auto &entry : fs::directory_iterator(directory))
    names.push_back(entry.path().filename().string());
  std::sort(names.begin(), names.end());
  return names;
}

class Checkpoint : public testing::Test {
protected:
  std::string step(const std::string &number, const std::string &file = "") {
    return directory_ + "/step-" + number + (file.empty() ? "" : "/" + file);
  }
  Result<LoadedCheckpoint> load() { return loadCheckpoint(directory_, "plan-a"); }

  TemporaryFolder folder_;
  std::string directory_ = folder_ / "run/checkpoints";
};

TEST_F(Checkpoint, GivesBackWhatWasSaved) {
  TrainingState state(500);
  EXPECT_FALSE(hasCheckpoint(directory_));
  ASSERT_TRUE(saveCheckpoint(directory_, state.contents, 3).isOk());
  EXPECT_TRUE(hasCheckpoint(directory_));
  EXPECT_EQ(entries(directory_), (std::vector<std::string>{"latest", "step-00000500"}));
  EXPECT_EQ(entries(step("00000500")), (std::vector<std::string>{"manifest.json", "state.safetensors"}));

  Result<LoadedCheckpoint> loaded = load();
  expectStep(loaded, 500);
  EXPECT_EQ(loaded->path, step("00000500"));
  EXPECT_EQ(loaded->manifest.planHash, "plan-a");
  EXPECT_EQ(loaded->manifest.config, state.contents.manifest.config);
  EXPECT_EQ(loaded->manifest.position, (LoaderPosition{3, 1500}));
  EXPECT_EQ(loaded->manifest.extra, state.contents.manifest.extra);
  EXPECT_EQ(loaded->tensors[0].name, "layer.weight");
  EXPECT_EQ(loaded->tensors[0].type, ElementType::F32);
  EXPECT_EQ(loaded->tensors[0].shape, (std::vector<int64_t>{2, 50}));
  EXPECT_EQ(loaded->tensors[1].shape, (std::vector<int64_t>{}));
}

TEST_F(Checkpoint, EqualStatesGiveEqualFiles) {
  ASSERT_TRUE(save(directory_, 1).isOk());
  ASSERT_TRUE(save(folder_ / "other", 1).isOk());
  for (const char *file : {"manifest.json", "state.safetensors"})
    EXPECT_EQ(readAll(step("00000001", file)), readAll((folder_ / "other/step-00000001/") + file));
}

TEST_F(Checkpoint, KeepsTheNewest) {
  for (uint64_t i : {8, 9, 10, 11})
    ASSERT_TRUE(save(directory_, i, 2).isOk());
  EXPECT_EQ(entries(directory_), (std::vector<std::string>{"latest", "step-00000010", "step-00000011"}));
  expectStep(load(), 11);
}

TEST_F(Checkpoint, ResumingFromAnOlderOneReplacesTheNewerOnesOneByOne) {
  for (uint64_t i : {100, 200, 300})
    ASSERT_TRUE(save(directory_, i).isOk());
  expectStep(loadCheckpoint(step("00000100"), "plan-a"), 100);
  expectStep(loadCheckpoint(step("00000100") + "/", "plan-a"), 100);
  ASSERT_TRUE(save(directory_, 150, 2).isOk());
  EXPECT_EQ(entries(directory_),
            (std::vector<std::string>{"latest", "step-00000100", "step-00000150", "step-00000200", "step-00000300"}));
  expectStep(load(), 150);

  TrainingState state(200);
  state.contents.manifest.extra["data"] = "new";
  ASSERT_TRUE(saveCheckpoint(directory_, state.contents, 2).isOk());
  EXPECT_EQ(entries(directory_),
            (std::vector<std::string>{"latest", "step-00000150", "step-00000200", "step-00000300"}));
  Result<LoadedCheckpoint> loaded = load();
  expectStep(loaded, 200);
  EXPECT_EQ(loaded->manifest.extra.at("data"), "new");
}

TEST_F(Checkpoint, RefusesDamageAndNamesAGoodOne) {
  for (uint64_t i : {1, 2, 3})
    ASSERT_TRUE(save(directory_, i).isOk());
  std::string path = step("00000003", "state.safetensors"), good = readAll(path);
  std::string bad = good;
  bad[good.size() / 2] ^= 1;
  writeFile(path, bad);
  expectError(load().status(), ExitCode::BadData, {path, "SHA-256", "resume from " + step("00000002")});
  writeFile(path, good.substr(0, good.size() - 1));
  expectError(load().status(), ExitCode::BadData, {path, "bytes", step("00000002")});
  writeFile(step("00000002", "manifest.json"), "{");
  expectError(load().status(), ExitCode::BadData, {path, "resume from " + step("00000001")});
  fs::remove_all(step("00000001"));
  expectError(load().status(), ExitCode::BadData, {path, "no other checkpoint"});
  writeFile(path, good);
  expectStep(load(), 3);
}

TEST_F(Checkpoint, NoticesEveryFlippedBit) {
  ASSERT_TRUE(save(directory_, 7).isOk());
  for (const char *file : {"manifest.json", "state.safetensors"}) {
    std::string path = step("00000007", file), good = readAll(path);
    for (size_t bit = 0; bit < good.size() * 8; bit += 11) {
      std::string bad = good;
      bad[bit / 8] ^= static_cast<char>(1 << bit % 8);
      writeFile(path, bad);
      EXPECT_EQ(load().status().code(), ExitCode::BadData) << file << ", bit " << bit;
    }
    for (size_t size = 0; size < good.size(); size += 37) {
      writeFile(path, good.substr(0, size));
      EXPECT_EQ(load().status().code(), ExitCode::BadData) << file << " cut to " << size;
    }
    writeFile(path, good);
  }
  expectStep(load(), 7);
}

TEST_F(Checkpoint, UsesTheNewestCompleteOneWhenLatestIsOfNoUse) {
  for (uint64_t i : {1, 2})
    ASSERT_TRUE(save(directory_, i).isOk());
  fs::create_directory(step("00000003"));
  writeFile(step("00000003", "manifest.json"), "{}");
  for (const char *latest : {"step-00000003\n", "step-00000009\n", "", "../../elsewhere", "step-1x", "step-"}) {
    writeFile(directory_ + "/latest", latest);
    expectStep(load(), 2);
  }
  fs::remove(directory_ + "/latest");
  expectStep(load(), 2);
  writeFile(directory_ + "/latest", "step-00000001\n");
  expectStep(load(), 1);
}

TEST_F(Checkpoint, RefusesWhatIsNone) {
  expectError(load().status(), ExitCode::MissingInput, {directory_, "no complete checkpoint"});
  fs::create_directories(directory_);
  expectError(load().status(), ExitCode::MissingInput, {directory_, "no complete checkpoint"});
  expectError(loadCheckpoint(step("00000001"), "plan-a").status(), ExitCode::MissingInput, {"step-00000001"});
  writeFile(directory_ + "/readme.txt", "x");
  EXPECT_FALSE(hasCheckpoint(directory_));
}

TEST_F(Checkpoint, RefusesAnotherPlan) {
  ASSERT_TRUE(save(directory_, 1).isOk());
  expectError(loadCheckpoint(directory_, "plan-b").status(), ExitCode::BadConfig,
              {step("00000001"), "plan-a", "plan-b", "another model"});
}

TEST_F(Checkpoint, RefusesManifestsThatAreMalformedThoughIntact) {
  ASSERT_TRUE(save(directory_, 1).isOk());
  std::string path = step("00000001", "manifest.json");
  auto good = nlohmann::json::parse(readAll(path))["manifest"];
  auto store = [&](const nlohmann::json &manifest) {
    std::string text = manifest.dump();
    std::string hash = toHex(sha256({reinterpret_cast<const uint8_t *>(text.data()), text.size()}));
    writeFile(path, nlohmann::json{{"manifest", manifest}, {"sha256", hash}}.dump());
  };
  store(good);
  expectStep(load(), 1);
  for (const auto &[key, value] : good.items()) {
    nlohmann::json bad = good;
    bad.erase(key);
    store(bad);
    expectError(load().status(), ExitCode::BadData, {path, key});
    bad[key] = nlohmann::json::array({-1});
    store(bad);
    expectError(load().status(), ExitCode::BadData, {path, key == "position" ? "epoch" : key});
  }
  for (auto [key, value] :
       {std::pair<const char *, nlohmann::json>{"step", -1}, {"step", 1.5}, {"format_version", 2}}) {
    nlohmann::json bad = good;
    bad[key] = value;
    store(bad);
    expectError(load().status(), ExitCode::BadData, {path});
  }
  store(nlohmann::json::array());
  expectError(load().status(), ExitCode::BadData, {path});
}

TEST_F(Checkpoint, RefusesNumbersThatJsonCannotHold) {
  TrainingState state(1);
  state.contents.manifest.config["lr"] = NAN;
  expectError(saveCheckpoint(directory_, state.contents, 1), ExitCode::BadConfig, {"'lr'", "nan"});
}

TEST_F(Checkpoint, RefusesADirectoryThatCannotBeMade) {
  writeFile(folder_ / "file", "x");
  expectError(save(folder_ / "file/checkpoints", 1), ExitCode::CannotCreate, {"file/checkpoints"});
}

TEST_F(Checkpoint, AFullDiskKeepsTheOldOne) {
  ASSERT_TRUE(save(directory_, 1).isOk());
  std::vector<std::string> before = entries(directory_);
  TrainingState large(2, 200'000);
  auto oldHandler = std::signal(SIGXFSZ, SIG_IGN);
  rlimit old;
  getrlimit(RLIMIT_FSIZE, &old);
  for (rlim_t limit : {rlim_t{0}, rlim_t{100}, rlim_t{1000}, rlim_t{100'000}}) {
    rlimit small = {limit, old.rlim_max};
    setrlimit(RLIMIT_FSIZE, &small);
    Status status = saveCheckpoint(directory_, large.contents, 1);
    setrlimit(RLIMIT_FSIZE, &old);
    expectError(status, ExitCode::WriteFailed, {directory_, "as they were"});
    EXPECT_EQ(entries(directory_), before);
    expectStep(load(), 1);
  }
  std::signal(SIGXFSZ, oldHandler);
  ASSERT_TRUE(saveCheckpoint(directory_, large.contents, 1).isOk());
  expectStep(load(), 2);
}

TEST_F(Checkpoint, KillingASaveNeverLosesTheOneBefore) {
  std::mt19937 random(3);
  auto start = std::chrono::steady_clock::now();
  ASSERT_TRUE(saveCheckpoint(directory_, TrainingState(1, 20'000).contents, 2).isOk());
  auto duration = std::chrono::duration_cast<std::chrono::microseconds>(std::chrono::steady_clock::now() - start);
  uint64_t reached = 1;
  for (int kill = 0; kill < 30 || (reached <= 3 && kill < 300); ++kill) { // on a busy machine, until saves are reached
    pid_t child = fork();
    if (child == 0) {
      // Every step is saved twice, so that the exchange of folders is hit as well.
      for (uint64_t i = reached * 2 + 1;; ++i)
        if (!saveCheckpoint(directory_, TrainingState(i / 2, 20'000).contents, 2).isOk())
          _exit(1);
    }
    std::this_thread::sleep_for(duration * (random() % 512) / 128);
    ::kill(child, SIGKILL);
    int status = 0;
    waitpid(child, &status, 0);
    ASSERT_TRUE(WIFSIGNALED(status)) << "a save failed";
    Result<LoadedCheckpoint> loaded = load();
    ASSERT_TRUE(loaded.isOk()) << loaded.status().message();
    EXPECT_GE(loaded->manifest.step, reached);
    if (loaded->manifest.step == reached)
      duration += duration / 8; // saves take longer than the first one did
    reached = loaded->manifest.step;
    expectStep(loaded, reached);
  }
  EXPECT_GT(reached, 3u) << "the kills came too early to test anything";
  ASSERT_TRUE(save(directory_, reached + 1, 2).isOk());
  EXPECT_LE(entries(directory_).size(), 3u) << "leftovers should be cleared";
}

TEST_F(Checkpoint, SavesInTheBackground) {
  AsyncCheckpointer checkpointer(directory_, 2);
  EXPECT_TRUE(checkpointer.wait().isOk());
  for (uint64_t i = 1; i <= 4; ++i) {
    TrainingState state(i, 10'000);
    ASSERT_TRUE(checkpointer.save(state.contents).isOk());
    std::fill(state.weights.begin(), state.weights.end(), -1.0f); // the next step writes while the copy is saved
    state.counter = 0;
  }
  EXPECT_TRUE(checkpointer.wait().isOk());
  EXPECT_TRUE(checkpointer.lastStatus().isOk());
  expectStep(load(), 4);
  expectStep(loadCheckpoint(step("00000003"), "plan-a"), 3);
}

TEST_F(Checkpoint, ReportsAFailedSaveInTheBackgroundOnce) {
  writeFile(folder_ / "run", "in the way");
  AsyncCheckpointer checkpointer(directory_, 2);
  TrainingState state(1);
  ASSERT_TRUE(checkpointer.save(state.contents).isOk());
  expectError(checkpointer.wait(), ExitCode::CannotCreate, {directory_});
  expectError(checkpointer.lastStatus(), ExitCode::CannotCreate, {directory_});
  expectError(checkpointer.save(state.contents), ExitCode::CannotCreate, {directory_});
  fs::remove(folder_ / "run");
  ASSERT_TRUE(checkpointer.save(state.contents).isOk());
  EXPECT_TRUE(checkpointer.wait().isOk());
  expectStep(load(), 1);
}

TEST_F(Checkpoint, FinishesTheSaveWhenTheOwnerGoes) {
  {
    AsyncCheckpointer checkpointer(directory_, 2);
    ASSERT_TRUE(checkpointer.save(TrainingState(9).contents).isOk());
  }
  expectStep(load(), 9);
}

} // namespace
} // namespace tapeout::rt
