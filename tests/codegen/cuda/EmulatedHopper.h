// The words of Hopper.h for the processor, as HopperPtx.h has them for the GPU. Included there, within its namespace.
// EmulatedHopper.cpp and EmulatedProducts.cpp define them for threads of GpuEmulator.h.

#define TAPEOUT_KERNEL extern "C" void

int threadIndex();
int blockIndex();
int blockCount();
int uniform(int value);
float fromLane(float value, int lane);
float fromNeighbour(float value);

uint32_t sharedMemory();

void syncBlock();
void syncWarp();
void syncGroup(int group);
void waitForTurn(int group);
void giveTurn(int group);

void initBarrier(uint32_t barrier, uint32_t arrivals);
void fenceBarrierInit();
void arrive(uint32_t barrier);
void arriveExpecting(uint32_t barrier, uint32_t bytes);
void wait(uint32_t barrier, uint32_t parity);

void copy16(uint32_t to, const void *from, bool exists);
void copy4(uint32_t to, const void *from, bool exists);
void arriveAfterCopies(uint32_t barrier);
void waitForCopies();
void fenceForProducts();

void loadBox(uint32_t to, const TensorMap &map, int column, int row, uint32_t barrier);
void storeBox(const TensorMap &map, int column, int row, uint32_t from);
void waitForBoxReads(int unread);
template <int Unread> void waitForBoxReads() { waitForBoxReads(Unread); }
void waitForBoxes();

struct Words4 {
  uint32_t word[4];
};
struct Floats4 {
  float value[4];
};
Words4 loadShared16(uint32_t at);
Floats4 loadFloats4(uint32_t at);
float loadFloat(uint32_t at);
void storeShared(uint32_t at, uint32_t word);
Words4 loadTransposed(uint32_t at);
void storeTransposed(uint32_t at, Words4 v);
void storeGlobal16(void *at, Words4 v);
void storeGlobal8(void *at, float a, float b);

float exp2(float x);
inline float reciprocal(float x) { return 1 / x; }
inline float multiplyAdd(float a, float b, float c) { return __builtin_fmaf(a, b, c); }

struct BFloat16 {};
struct Float16 {};
uint32_t pack(float low, float high, BFloat16);
uint32_t pack(float low, float high, Float16);
float lowOf(uint32_t both, BFloat16);
float highOf(uint32_t both, BFloat16);
float lowOf(uint32_t both, Float16);
float highOf(uint32_t both, Float16);

template <int Count> void takeRegisters() {}
template <int Count> void giveRegisters() {}

void beginProducts();
void endBatch();
void waitForBatches(int unfinished);
template <int Unfinished> void waitForBatches() { waitForBatches(Unfinished); }

void multiplyRows(float *d, uint64_t a, uint64_t b, int accumulate, BFloat16);
void multiplyRows(float *d, uint64_t a, uint64_t b, int accumulate, Float16);
void multiplyAddColumns(float *d, const uint32_t *a, uint64_t b, BFloat16);
void multiplyAddColumns(float *d, const uint32_t *a, uint64_t b, Float16);
void multiplyAddWide(bool transposed, float *d, uint64_t a, uint64_t b, BFloat16);
void multiplyAddWide(bool transposed, float *d, uint64_t a, uint64_t b, Float16);
template <bool Transposed, typename Type> void multiplyAddWide(float *d, uint64_t a, uint64_t b, Type type) {
  multiplyAddWide(Transposed, d, a, b, type);
}
