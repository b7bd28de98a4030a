// The words of Hopper.h about numbers of 16 bits and products of a warpgroup.
#include "runtime/base/BFloat16.h"
#include "tests/codegen/cuda/EmulatedBlock.h"

#include <limits>

namespace tapeout::codegen {
namespace {

constexpr int kWarp = hopper::kWarp;
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

/// Column `column` of rows of 64: 16 of its elements.
template <typename Type> std::array<float, 16> columnOf(const Matrix &matrix, int column) {
  std::array<float, 16> numbers;
  for (int i = 0; i < 16; ++i)
    numbers[i] = numberOf(matrix.chunk(i, column / 8)[column % 8], Type());
  return numbers;
}

template <typename Type, bool Transposed> void multiplyAddWide(size_t number, float *sums) {
  const Product &product = block->thread().products[number];
  const Matrix a(product.a), b(product.b);
  auto row = [&](int i) { return Transposed ? columnOf<Type>(a, i) : rowOf<Type>(a, i); };
  const std::array<float, 16> rows[2] = {row(firstRow()), row(firstRow() + 8)};
  for (int j = 0; j < 20; ++j)
    for (int odd = 0; odd < 2; ++odd) {
      const std::array<float, 16> column = rowOf<Type>(b, 8 * j + 2 * (lane() % kQuad) + odd);
      for (int half = 0; half < 2; ++half)
        for (int k = 0; k < 16; ++k)
          sums[4 * j + 2 * half + odd] += rows[half][k] * column[k];
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
      std::copy_n(product.d, product.numbers, sums->value.begin());
    std::fill_n(product.d, product.numbers, kNaN);
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
    std::copy_n(sums->value.begin(), product.numbers, sums->d);
    thread.sums.erase(sums);
  }
}

uint32_t pack(uint16_t low, uint16_t high) { return low | uint32_t(high) << 16; }

} // namespace
} // namespace tapeout::codegen

namespace hopper {

using namespace tapeout;
using namespace tapeout::codegen;

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
    issue({d, 32, a, b, nullptr, {}, 0, codegen::multiplyRows<Type>}, accumulate);                                     \
  }                                                                                                                    \
  void multiplyAddColumns(float *d, const uint32_t *a, uint64_t b, Type) {                                             \
    issue({d, 32, 0, b, a, {a[0], a[1], a[2], a[3]}, 0, codegen::multiplyAddColumns<Type>}, true);                     \
  }                                                                                                                    \
  void multiplyAddWide(bool transposed, float *d, uint64_t a, uint64_t b, Type) {                                      \
    auto *compute = transposed ? codegen::multiplyAddWide<Type, true> : codegen::multiplyAddWide<Type, false>;         \
    issue({d, 80, a, b, nullptr, {}, 0, compute}, true);                                                               \
  }
TAPEOUT_EMULATED_PRODUCT(BFloat16)
TAPEOUT_EMULATED_PRODUCT(Float16)

} // namespace hopper
