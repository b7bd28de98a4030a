// A libcuda.so.1 that shows one GPU, of the compute capability $TAPEOUT_FAKE_GPU (90), and can do nothing else.
#include <cstdlib>

extern "C" {
int cuInit(unsigned) { return 0; }
int cuDeviceGetCount(int *count) { return *count = 1, 0; }
int cuDeviceGet(int *device, int) { return *device = 0, 0; }
int cuDeviceGetAttribute(int *value, int attribute, int) {
  constexpr int kMajor = 75;
  int capability = std::atoi(std::getenv("TAPEOUT_FAKE_GPU"));
  *value = attribute == kMajor ? capability / 10 : capability % 10;
  return 0;
}
}
