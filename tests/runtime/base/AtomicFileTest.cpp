#include "runtime/base/AtomicFile.h"
#include "tests/runtime/base/TestFolder.h"

#include <csignal>
#include <sys/resource.h>
#include <sys/stat.h>

using namespace tapeout;

namespace {

using AtomicFileTest = TestFolder;
using ReadFileTest = TestFolder;
using MappedFileTest = TestFolder;

TEST_F(AtomicFileTest, AppearsOnCommitOnly) {
  put("out", "old");
  {
    Result<AtomicFile> file = AtomicFile::create(path("out"));
    ASSERT_TRUE(file.isOk()) << file.status().message();
    ASSERT_TRUE(file->write("new ", 4).isOk());
    EXPECT_EQ(get("out"), "old");
    AtomicFile moved = std::move(*file);
    ASSERT_TRUE(moved.write("content", 7).isOk());
    EXPECT_EQ(moved.bytesWritten(), 11u);
    ASSERT_TRUE(moved.commit().isOk());
  }
  EXPECT_EQ(get("out"), "new content");
  EXPECT_EQ(fileCount(), 1u);
}

TEST_F(AtomicFileTest, LeavesNothingWithoutCommit) {
  put("out", "old");
  {
    Result<AtomicFile> file = AtomicFile::create(path("out"));
    ASSERT_TRUE(file.isOk() && file->write("new", 3).isOk());
    EXPECT_EQ(fileCount(), 2u);
  }
  EXPECT_EQ(get("out"), "old");
  EXPECT_EQ(fileCount(), 1u);
}

TEST_F(AtomicFileTest, TwoWritersOfOneNameDoNotMix) {
  Result<AtomicFile> first = AtomicFile::create(path("out")), second = AtomicFile::create(path("out"));
  ASSERT_TRUE(first.isOk() && second.isOk());
  ASSERT_TRUE(first->write("1", 1).isOk() && second->write("2", 1).isOk());
  ASSERT_TRUE(second->commit().isOk() && first->commit().isOk());
  EXPECT_EQ(get("out"), "1");
  EXPECT_EQ(fileCount(), 1u);
}

TEST_F(AtomicFileTest, ModeFollowsTheUmask) {
  mode_t old = ::umask(027);
  Result<AtomicFile> file = AtomicFile::create(path("out"), 0755);
  ::umask(old);
  ASSERT_TRUE(file.isOk() && file->commit().isOk());
  struct stat info;
  ASSERT_EQ(::stat(path("out").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0750u);
}

// The device is reached by a link: were it not refused, only the link would be replaced.
TEST_F(AtomicFileTest, RefusesWhatIsNoFile) {
  ASSERT_EQ(::mkfifo(path("pipe").c_str(), 0600), 0);
  std::filesystem::create_symlink("/dev/null", path("device"));
  for (const std::string &target : {folder_, path("pipe"), path("device"), path("missing/out"), folder_ + "/",
                                    std::string(), path(std::string(300, 'n'))}) {
    Result<AtomicFile> file = AtomicFile::create(target);
    bool created = file.isOk() && file->commit().isOk();
    EXPECT_FALSE(created) << target;
    if (!file.isOk()) {
      EXPECT_EQ(file.status().code(), ExitCode::CannotCreate);
      EXPECT_NE(file.status().message().find("'" + target + "'"), std::string::npos);
    }
  }
  EXPECT_EQ(fileCount(), 2u);
}

// A limit on the size of files stands for the full disk: write() fails after a part in the same way.
TEST_F(AtomicFileTest, FullDiskIsWriteFailedAndLeavesNothing) {
  rlimit old;
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &old), 0);
  auto oldHandler = std::signal(SIGXFSZ, SIG_IGN);
  rlimit small = {100'000, old.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
  Status status;
  {
    Result<AtomicFile> file = AtomicFile::create(path("out"));
    ASSERT_TRUE(file.isOk());
    std::string data(300'000, 'x');
    status = file->write(data.data(), data.size());
  }
  ::setrlimit(RLIMIT_FSIZE, &old);
  std::signal(SIGXFSZ, oldHandler);
  EXPECT_EQ(status.code(), ExitCode::WriteFailed);
  EXPECT_NE(status.message().find(path("out") + "' after 100000 bytes"), std::string::npos) << status.message();
  EXPECT_EQ(fileCount(), 0u);
}

TEST_F(AtomicFileTest, FailedRenameIsWriteFailedAndLeavesNothing) {
  Result<AtomicFile> file = AtomicFile::create(path("out"));
  ASSERT_TRUE(file.isOk());
  std::filesystem::create_directory(path("out"));
  EXPECT_EQ(file->commit().code(), ExitCode::WriteFailed);
  EXPECT_EQ(fileCount(), 1u);
  EXPECT_FALSE(file->write("x", 1).isOk());
  EXPECT_FALSE(file->commit().isOk());
}

TEST_F(ReadFileTest, ReadsUpToTheLimit) {
  std::string content(10'000, 'a');
  content[5000] = '\0';
  put("in", content);
  Result<std::string> whole = readFile(path("in"), content.size());
  ASSERT_TRUE(whole.isOk()) << whole.status().message();
  EXPECT_EQ(*whole, content);
  Result<std::string> tooLarge = readFile(path("in"), content.size() - 1);
  ASSERT_FALSE(tooLarge.isOk());
  EXPECT_EQ(tooLarge.status().code(), ExitCode::BadData);
  put("empty", "");
  EXPECT_EQ(*readFile(path("empty"), 0), "");
}

TEST_F(ReadFileTest, ReadsFilesThatDoNotKnowTheirSize) {
  Result<std::string> status = readFile("/proc/self/status", 1 << 20);
  ASSERT_TRUE(status.isOk());
  EXPECT_NE(status->find("Name:"), std::string::npos);
}

TEST_F(ReadFileTest, MissingFilesAndOthersAreMissingInput) {
  ASSERT_EQ(::mkfifo(path("pipe").c_str(), 0600), 0);
  for (const std::string &name : {path("missing"), folder_, path("pipe"), std::string("/dev/zero"), std::string()}) {
    Result<std::string> content = readFile(name, 100);
    Result<MappedFile> mapped = MappedFile::open(name);
    ASSERT_FALSE(content.isOk() || mapped.isOk()) << name;
    EXPECT_EQ(content.status().code(), ExitCode::MissingInput);
    EXPECT_EQ(mapped.status().code(), ExitCode::MissingInput);
    EXPECT_NE(content.status().message().find("'" + name + "'"), std::string::npos);
  }
  EXPECT_NE(readFile(folder_, 100).status().message().find("is a directory"), std::string::npos);
  EXPECT_NE(readFile(path("pipe"), 100).status().message().find("is a pipe"), std::string::npos);
}

TEST_F(MappedFileTest, SpansSurviveAMove) {
  put("in", "hello");
  put("empty", "");
  Result<MappedFile> file = MappedFile::open(path("in")), empty = MappedFile::open(path("empty"));
  ASSERT_TRUE(file.isOk() && empty.isOk());
  std::span<const uint8_t> bytes = file->bytes();
  MappedFile moved = std::move(*file);
  *empty = std::move(moved);
  EXPECT_EQ(std::string(bytes.begin(), bytes.end()), "hello");
  EXPECT_EQ(empty->size(), 5u);
  EXPECT_EQ(empty->path(), path("in"));
  EXPECT_EQ(file->size(), 0u);
}

TEST_F(AtomicFileTest, OneHolderOfAFolderAtATime) {
  {
    Result<FolderLock> first = FolderLock::take(folder_);
    ASSERT_TRUE(first.isOk()) << first.status().message();
    FolderLock moved = std::move(*first);
    EXPECT_EQ(FolderLock::take(folder_).status().code(), ExitCode::BadConfig);
  }
  EXPECT_TRUE(FolderLock::take(folder_).isOk());
  EXPECT_EQ(FolderLock::take(path("missing")).status().code(), ExitCode::MissingInput);
}

TEST_F(AtomicFileTest, SyncDirectoryNamesTheFolder) {
  EXPECT_TRUE(syncDirectory(folder_).isOk());
  EXPECT_NE(syncDirectory(path("missing")).message().find(path("missing")), std::string::npos);
}

} // namespace
