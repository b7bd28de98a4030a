// Where NVIDIA's libraries are looked for, and what is said when there are none.
#include "runtime/device/cuda/LibrarySearch.h"

#include "runtime/device/cuda/CublasLt.h"
#include "tests/runtime/TestPlans.h"

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>

namespace tapeout::rt {
namespace {

using namespace test;

TEST(LibrarySearch, FindsToolkitAndWheelsInOrder) {
  TemporaryFolder root;
  for (const char *folder : {"opt/app/.venv/lib/python3.12/site-packages/nvidia/cu13/lib", "home/cuda/lib64",
                             "usr/local/cuda/lib64", "usr/local/cuda/extras/CUPTI/lib64",
                             "usr/lib/python3/dist-packages/nvidia/cublas/lib", "opt/app/lib64",
                             "usr/local/lib/python3.11/site-packages/nvidia/cublas/include"})
    std::filesystem::create_directories(root.file(folder));
  setenv("CUDA_HOME", "/home/cuda", 1);
  std::vector<std::string> found = nvidiaLibraryFolders(root.file(""));
  unsetenv("CUDA_HOME");
  std::vector<std::string> names;
  for (const std::string &folder : found)
    names.push_back(std::filesystem::path(folder).lexically_relative(root.file("")).string());
  EXPECT_EQ(names, (std::vector<std::string>{"home/cuda/lib64", "usr/local/cuda/lib64", "usr/local/cuda/extras/CUPTI/lib64",
                                             "usr/lib/python3/dist-packages/nvidia/cublas/lib",
                                             "opt/app/.venv/lib/python3.12/site-packages/nvidia/cu13/lib"}));
}

TEST(LibrarySearch, OpensFromTheFoldersAndSaysWhatIsMissing) {
  TemporaryFolder folder;
  const char *names[] = {"libtapeout-no-such.so.13", "libtapeout-no-such.so.12"};
  std::filesystem::copy_file(TAPEOUT_FAKE_CUDA, folder.file(names[1]));
  const std::vector<std::string> folders = {folder.file("none"), folder.file("")};
  EXPECT_TRUE(openLibrary(names, folders, "needed", "get it").isOk());
  Status status = openLibrary(names, {}, "this needs the library", "install it").status();
  EXPECT_EQ(status.code(), ExitCode::Unavailable);
  EXPECT_TRUE(status.message().starts_with("this needs the library (libtapeout-no-such.so.13: ")) << status.message();
  EXPECT_TRUE(status.message().ends_with("); install it")) << status.message();
}

TEST(LibrarySearch, OldLibrariesLackFunctions) {
  void *process = dlopen("libm.so.6", RTLD_NOW);
  Status status = CudaDriver::resolve(process).status();
  EXPECT_EQ(status.code(), ExitCode::Unavailable);
  EXPECT_NE(status.message().find("is too old: it lacks the function cuInit"), std::string::npos) << status.message();
}

TEST(LibrarySearch, NoDriverIsASentence) {
  Result<CudaDriver> driver = CudaDriver::open();
  if (driver.isOk())
    GTEST_SKIP() << "there is a driver";
  EXPECT_EQ(driver.status().code(), ExitCode::Unavailable);
  EXPECT_NE(driver.status().message().find("there is no NVIDIA driver (libcuda.so.1: "), std::string::npos);
}

} // namespace
} // namespace tapeout::rt
