// gpu-kernel-check RECORD: repeats runs of kernels that tests wrote down (KernelRecord.h) on the GPU of this machine. To
// get a record, run CudaCodegenTest and ops-cuda-test with TAPEOUT_KERNEL_RECORD=RECORD.
#include "tests/codegen/gpu/Driver.h"
#include "tests/codegen/gpu/KernelRecord.h"

#include <cstring>
#include <vector>

namespace tapeout::gpu {
namespace {

bool isNan(uint32_t word) { return (word & 0x7fffffff) > 0x7f800000; }

/// The first byte that differs, or the size. Processors disagree about the bits of NaN.
size_t firstDifference(const std::string &actual, const std::string &expected) {
  for (size_t at = 0; at < actual.size(); ++at) {
    if (actual[at] == expected[at])
      continue;
    uint32_t words[2] = {0, 0};
    size_t start = at / 4 * 4;
    if (start + 4 <= actual.size()) {
      std::memcpy(&words[0], actual.data() + start, 4);
      std::memcpy(&words[1], expected.data() + start, 4);
    }
    if (!isNan(words[0]) || !isNan(words[1]))
      return at;
  }
  return actual.size();
}

/// Whether all arguments hold afterwards what the record says.
bool repeat(Driver &driver, Module module, codegen::RecordReader &record) {
  std::string symbol = *record.text();
  unsigned blocks = record.number(), threads = record.number(), shared = record.number();
  bool table = *record.text() == "table";
  size_t count = record.number();
  std::vector<std::string> expected(count);
  std::vector<Address> buffers(count);
  for (size_t i = 0; i < count; ++i) {
    std::string before = *record.text();
    expected[i] = *record.text();
    buffers[i] = driver.allocate(before.size() + 64);
    driver.toDevice(buffers[i], before.data(), before.size());
  }
  std::vector<void *> pointers;
  for (Address &buffer : buffers)
    pointers.push_back(&buffer);
  Address tableAddress = driver.allocate(count * sizeof(Address));
  driver.toDevice(tableAddress, buffers.data(), count * sizeof(Address));
  void *onlyTable[] = {&tableAddress};
  driver.launch(driver.function(module, symbol.c_str()), blocks, threads, shared, table ? onlyTable : pointers.data());
  driver.synchronize();

  bool right = true;
  for (size_t i = 0; i < count; ++i) {
    std::string after(expected[i].size(), '\0');
    driver.toHost(after.data(), buffers[i], after.size());
    driver.free(buffers[i]);
    size_t at = firstDifference(after, expected[i]);
    if (at == after.size())
      continue;
    std::printf("WRONG %s: argument %zu of %zu differs from byte %zu on, of %zu\n", symbol.c_str(), i, count, at, after.size());
    right = false;
  }
  driver.free(tableAddress);
  return right;
}

int check(const char *path) {
  Driver driver;
  codegen::RecordReader record(path);
  Module module = nullptr;
  size_t runs = 0, wrong = 0;
  while (std::optional<std::string> word = record.text())
    if (*word == "module")
      module = driver.load(record.text()->c_str());
    else if (*word == "run")
      ++runs, wrong += !repeat(driver, module, record);
  std::printf("%zu runs of kernels, %zu with other bits than on the emulator\n", runs, wrong);
  return runs == 0 || wrong > 0;
}

} // namespace
} // namespace tapeout::gpu

int main(int count, char **arguments) {
  if (count == 2)
    return tapeout::gpu::check(arguments[1]);
  std::fprintf(stderr, "usage: %s RECORD\n", arguments[0]);
  return 2;
}
