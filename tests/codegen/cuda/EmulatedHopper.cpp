#include "codegen/cuda/device/Hopper.h"
#include "runtime/base/BFloat16.h"
#include "tests/codegen/cuda/HopperEmulator.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <vector>

namespace tapeout::codegen {
namespace {

constexpr int kWarp = hopper::kWarp, kQuad = 4;
// Addresses do not begin at 0, so that a sum that lacks the base shows.
constexpr uint32_t kBase = 1024, kChunk = 16;
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

float numberOf(uint16_t bits, hopper::BFloat16) { return bfloat16ToFloat(bits); }
float numberOf(uint16_t bits, hopper::Float16) {
  static const std::vector<float> numbers = [] {
    std::vector<float> all(1 << 16);
    for (size_t i = 0; i < all.size(); ++i)
      all[i] = halfToFloat(i);
    return all;
  }();
  return numbers[bits];
}

struct Copy {
  uint32_t to, bytes;
  const void *from; // null: zeros
};

/// d += a b of 16 columns of `a`. One of a thread's; its warp's other threads have the same.
struct Product {
  float *d;
  uint64_t a, b;
  const uint32_t *registers; // of the thread, with its part of `a`; null: it lies in shared memory
  std::array<uint32_t, 4> aOfThread;
  int batch;
  void (*compute)(size_t number, float *sums); // of the product among those of the thread
};

/// Sums that products in flight add to. The registers hold no number meanwhile.
struct Sums {
  float *d;
  int products;
  std::array<float, 32> value;
};

struct Thread {
  std::vector<Copy> copies;
  std::vector<Product> products;
  std::vector<Sums> sums;
  int batches = 0;
  bool begun = false;  // products, by a fence
  uint64_t fenced = 0; // memory for products: when
};

/// An mbarrier, which lies in shared memory.
struct Barrier {
  uint16_t arrivals, missing;
  uint32_t phase;
};

struct Block {
  std::vector<char> memory;
  struct Writing {
    uint64_t time;
    int thread;
  };
  std::vector<Writing> written; // of each chunk
  std::vector<Thread> threads;
  uint64_t time = 0;
  std::string error;

  Block(uint32_t sharedBytes, unsigned threadCount)
      : memory(sharedBytes, char(0xFF)), written(sharedBytes / kChunk + 1), threads(threadCount) {}

  Thread &thread() { return threads[emulated::threadIndex()]; }
  void fail(const std::string &what) {
    if (error.empty())
      error = "block " + std::to_string(emulated::blockIndex()) + ", thread " +
              std::to_string(emulated::threadIndex()) + ": " + what;
  }
  /// `bytes` of shared memory, aligned to as many.
  char *at(uint32_t address, uint32_t bytes) {
    static char nowhere[kChunk];
    if (address % bytes == 0 && address >= kBase && address - kBase + bytes <= memory.size())
      return &memory[address - kBase];
    fail("no " + std::to_string(bytes) + " bytes of shared memory are at " + std::to_string(address));
    return nowhere;
  }
  void write(uint32_t address, const void *from, uint32_t bytes) {
    char *to = at(address, bytes);
    from ? std::memcpy(to, from, bytes) : std::memset(to, 0, bytes);
    written[std::min<size_t>((address - kBase) / kChunk, written.size() - 1)] = {++time, emulated::threadIndex()};
  }
  /// What a product reads: a fence of the one that wrote or of the one that multiplies must lie between.
  const uint16_t *operand(uint32_t address) {
    const char *chunk = at(address, kChunk);
    if (error.empty()) {
      const Writing &last = written[(address - kBase) / kChunk];
      if (last.time > thread().fenced && last.time > threads[last.thread].fenced)
        fail("a product reads what no fence has made visible to it");
    }
    return reinterpret_cast<const uint16_t *>(chunk);
  }
  Barrier load(uint32_t barrier) {
    return std::bit_cast<Barrier>(*reinterpret_cast<uint64_t *>(at(barrier, sizeof(Barrier))));
  }
  void store(uint32_t barrier, Barrier value) { std::memcpy(at(barrier, sizeof(Barrier)), &value, sizeof value); }
};

Block *block = nullptr;

/// A matrix descriptor of 128-byte swizzles: rows of 128 bytes, 8 of them as a group.
class Matrix {
public:
  explicit Matrix(uint64_t descriptor)
      : start_((descriptor & 0x3FFF) << 4), groupStride_((descriptor >> 32 & 0x3FFF) << 4) {
    if (descriptor >> 62 != 1 || (descriptor >> 49 & 7) != 0)
      block->fail("a descriptor's swizzle is not of 128 bytes from a multiple of 1,024");
  }
  /// 8 elements. The swizzle is one of the address.
  const uint16_t *chunk(int row, int number) const {
    uint32_t address = start_ + row / 8 * groupStride_ + row % 8 * 128 + number * kChunk;
    return block->operand(address ^ ((address >> 7 & 7) << 4));
  }

private:
  uint32_t start_, groupStride_;
};

int lane() { return emulated::threadIndex() % kWarp; }
/// The first of a thread's two rows; the other one is 8 behind.
int firstRow() { return emulated::threadIndex() / kWarp % 4 * 16 + lane() / kQuad; }

template <typename Type> std::array<float, 16> rowOf(const Matrix &matrix, int row) {
  std::array<float, 16> numbers;
  for (int half = 0; half < 2; ++half) {
    const uint16_t *bits = matrix.chunk(row, half);
    for (int i = 0; i < 8; ++i)
      numbers[8 * half + i] = numberOf(bits[i], Type());
  }
  return numbers;
}

template <typename Type> void multiplyRows(size_t number, float *sums) {
  const Product &product = block->thread().products[number];
  const Matrix a(product.a), b(product.b);
  const std::array<float, 16> rows[2] = {rowOf<Type>(a, firstRow()), rowOf<Type>(a, firstRow() + 8)};
  for (int j = 0; j < 8; ++j)
    for (int odd = 0; odd < 2; ++odd) {
      const std::array<float, 16> column = rowOf<Type>(b, 8 * j + 2 * (lane() % kQuad) + odd);
      for (int half = 0; half < 2; ++half)
        for (int k = 0; k < 16; ++k)
          sums[4 * j + 2 * half + odd] += rows[half][k] * column[k];
    }
}

template <typename Type> void multiplyAddColumns(size_t number, float *sums) {
  float rows[2][16];
  for (int of = 0; of < kQuad; ++of) { // the quad's threads have parts of the two rows
    const Product &part = block->threads[emulated::threadIndex() / kQuad * kQuad + of].products[number];
    for (int i = 0; i < 4; ++i)
      for (int odd = 0; odd < 2; ++odd)
        rows[i % 2][i / 2 * 8 + 2 * of + odd] = numberOf(uint16_t(part.aOfThread[i] >> 16 * odd), Type());
  }
  const Product &product = block->thread().products[number];
  if (!std::equal(product.aOfThread.begin(), product.aOfThread.end(), product.registers))
    block->fail("changes registers that a product reads");
  const Matrix b(product.b);
  for (int k = 0; k < 16; ++k)
    for (int j = 0; j < 8; ++j) {
      const uint16_t *bits = b.chunk(k, j) + 2 * (lane() % kQuad);
      for (int odd = 0; odd < 2; ++odd)
        for (int half = 0; half < 2; ++half)
          sums[4 * j + 2 * half + odd] += rows[half][k] * numberOf(bits[odd], Type());
    }
}

void issue(Product product, bool accumulate) {
  Thread &thread = block->thread();
  if (!thread.begun)
    block->fail("no fence lies between a product and what the thread has done before");
  auto sums = std::find_if(thread.sums.begin(), thread.sums.end(), [&](const Sums &s) { return s.d == product.d; });
  if (sums == thread.sums.end()) {
    sums = thread.sums.insert(sums, {product.d, 0, {}});
    if (accumulate)
      std::copy_n(product.d, 32, sums->value.begin());
    std::fill_n(product.d, 32, kNaN);
  } else if (!accumulate) {
    block->fail("a product begins a sum that another one adds to");
  }
  ++sums->products;
  product.batch = thread.batches;
  thread.products.push_back(product);
}

/// The warp's threads have come, with the same products.
void compute(Thread &thread, size_t number) {
  const Product &product = thread.products[number];
  const Product &first = block->threads[emulated::threadIndex() / kWarp * kWarp].products[number];
  if (product.a != first.a || product.b != first.b)
    block->fail("the threads of a warp multiply different matrices");
  auto sums = std::find_if(thread.sums.begin(), thread.sums.end(), [&](const Sums &s) { return s.d == product.d; });
  product.compute(number, sums->value.data());
  if (--sums->products == 0) {
    std::copy_n(sums->value.begin(), 32, sums->d);
    thread.sums.erase(sums);
  }
}

uint32_t pack(uint16_t low, uint16_t high) { return low | uint32_t(high) << 16; }

} // namespace

std::string runOnHopperEmulator(const Launch &launch, uint32_t sharedBytes, const std::function<void()> &thread) {
  std::unique_ptr<Block> current;
  int number = -1;
  std::string error;
  std::string waiting = runOnEmulator(launch, [&] {
    if (emulated::blockIndex() != number) {
      number = emulated::blockIndex();
      current = std::make_unique<Block>(sharedBytes, launch.threads);
      block = current.get();
    }
    thread();
    if (const Thread &ended = block->thread(); !ended.copies.empty() || !ended.products.empty())
      block->fail("ends before its copies or products");
    if (error.empty())
      error = block->error;
  });
  if (error.empty() && block)
    error = block->error; // of threads that have not ended
  block = nullptr;
  return error.empty() ? waiting : error;
}

} // namespace tapeout::codegen

namespace hopper {

using namespace tapeout;
using namespace tapeout::codegen;

int threadIndex() { return emulated::threadIndex(); }
int blockIndex() { return emulated::blockIndex(); }
int blockCount() { return emulated::blockCount(); }
int uniform(int value) { return int(emulated::wordOf(value, 0)); }
float fromLane(float value, int lane) {
  return std::bit_cast<float>(emulated::wordOf(std::bit_cast<uint32_t>(value), lane));
}
float fromNeighbour(float value) { return fromLane(value, lane() ^ 1); }

uint32_t sharedMemory() { return kBase; }

void syncBlock() { emulated::syncBlock(); }
void syncWarp() { emulated::syncWarp(); }
void syncGroup(int group) {
  if (group != threadIndex() / kWarpgroup)
    block->fail("waits for another warpgroup");
  emulated::syncWarpgroup();
}

void initBarrier(uint32_t barrier, uint32_t arrivals) {
  block->store(barrier, {uint16_t(arrivals), uint16_t(arrivals), 0});
}
void arrive(uint32_t barrier) {
  Barrier state = block->load(barrier);
  if (--state.missing == 0) {
    state.missing = state.arrivals;
    ++state.phase;
  }
  block->store(barrier, state);
  emulated::notify();
}
void wait(uint32_t barrier, uint32_t parity) {
  while ((block->load(barrier).phase & 1) == parity)
    emulated::yield();
}

void copy16(uint32_t to, const void *from, bool exists) {
  if (reinterpret_cast<uintptr_t>(from) % 16 != 0)
    block->fail("copies 16 bytes that are not aligned");
  block->thread().copies.push_back({to, 16, exists ? from : nullptr});
}
void copy4(uint32_t to, const void *from, bool exists) {
  block->thread().copies.push_back({to, 4, exists ? from : nullptr});
}
void waitForCopies() {
  for (const Copy &copy : block->thread().copies)
    block->write(copy.to, copy.from, copy.bytes);
  block->thread().copies.clear();
}
void arriveAfterCopies(uint32_t barrier) {
  waitForCopies();
  arrive(barrier);
}
void fenceForProducts() { block->thread().fenced = ++block->time; }

Words4 loadShared16(uint32_t at) { return *reinterpret_cast<const Words4 *>(block->at(at, 16)); }
Floats4 loadFloats4(uint32_t at) { return std::bit_cast<Floats4>(loadShared16(at)); }
float loadFloat(uint32_t at) { return *reinterpret_cast<const float *>(block->at(at, 4)); }
void storeShared(uint32_t at, uint32_t word) { block->write(at, &word, 4); }
template <typename T> void storeGlobal(void *at, const T &value) {
  if (reinterpret_cast<uintptr_t>(at) % sizeof value != 0)
    block->fail("writes " + std::to_string(sizeof value) + " bytes that are not aligned");
  std::memcpy(at, &value, sizeof value);
}
void storeGlobal16(void *at, Words4 v) { storeGlobal(at, v); }
void storeGlobal8(void *at, float a, float b) { storeGlobal(at, std::array{a, b}); }

float exp2(float x) { return std::exp2(x); }
uint32_t pack(float low, float high, BFloat16) { return codegen::pack(floatToBfloat16(low), floatToBfloat16(high)); }
uint32_t pack(float low, float high, Float16) { return codegen::pack(floatToHalf(low), floatToHalf(high)); }
float lowOf(uint32_t both, BFloat16 type) { return numberOf(uint16_t(both), type); }
float highOf(uint32_t both, BFloat16 type) { return numberOf(uint16_t(both >> 16), type); }
float lowOf(uint32_t both, Float16 type) { return numberOf(uint16_t(both), type); }
float highOf(uint32_t both, Float16 type) { return numberOf(uint16_t(both >> 16), type); }

void beginProducts() { block->thread().begun = true; }
void endBatch() { ++block->thread().batches; }
void waitForBatches(int unfinished) {
  Thread &thread = block->thread();
  emulated::syncWarp(); // registers of the others are operands
  size_t ended = 0;
  while (ended < thread.products.size() && thread.products[ended].batch < thread.batches - unfinished)
    compute(thread, ended++);
  emulated::syncWarp();
  thread.products.erase(thread.products.begin(), thread.products.begin() + ended);
  thread.begun = false; // the thread may use its registers now
}

#define TAPEOUT_EMULATED_PRODUCT(Type)                                                                                 \
  void multiplyRows(float *d, uint64_t a, uint64_t b, int accumulate, Type) {                                          \
    issue({d, a, b, nullptr, {}, 0, codegen::multiplyRows<Type>}, accumulate);                                         \
  }                                                                                                                    \
  void multiplyAddColumns(float *d, const uint32_t *a, uint64_t b, Type) {                                             \
    issue({d, 0, b, a, {a[0], a[1], a[2], a[3]}, 0, codegen::multiplyAddColumns<Type>}, true);                         \
  }
TAPEOUT_EMULATED_PRODUCT(BFloat16)
TAPEOUT_EMULATED_PRODUCT(Float16)

} // namespace hopper
