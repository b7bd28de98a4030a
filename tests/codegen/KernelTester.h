// Compiles plan.kernel ops given as text and runs them in several ways, which must give equal bits. Each target has its own
// tester behind this header: on the cpu, each instruction set and several divisions of units; on the target cuda, an
// emulator of its threads in two orders (cuda/GpuEmulator.h).
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <memory>
#include <numeric>
#include <random>
#include <string>
#include <vector>

namespace tapeout::codegen {

/// An aligned buffer between two guards that notices writes outside it.
class Tensor {
public:
  template <typename T> static Tensor of(const std::vector<T> &values) {
    Tensor tensor(values.size() * sizeof(T));
    std::memcpy(tensor.data(), values.data(), values.size() * sizeof(T));
    return tensor;
  }
  template <typename T> static Tensor empty(int64_t elements) { return Tensor(elements * sizeof(T)); }

  void *data() const { return bytes_.get() + kGuard; }
  size_t size() const { return size_; } // bytes
  template <typename T> std::vector<T> values() const {
    std::vector<T> result(size_ / sizeof(T));
    std::memcpy(result.data(), data(), size_);
    return result;
  }
  Tensor clone() const {
    Tensor copy(size_);
    std::memcpy(copy.data(), data(), size_);
    return copy;
  }
  bool sameBits(const Tensor &other) const { return std::memcmp(data(), other.data(), size_) == 0; }
  bool guardsIntact() const {
    for (size_t i = 0; i < kGuard; ++i)
      if (bytes_.get()[i] != kPattern || bytes_.get()[kGuard + size_ + i] != kPattern)
        return false;
    return true;
  }

private:
  static constexpr size_t kGuard = 128;
  static constexpr uint8_t kPattern = 0xCD;
  explicit Tensor(size_t size)
      : size_(size), bytes_(static_cast<uint8_t *>(aligned_alloc(64, (size + 2 * kGuard + 63) / 64 * 64)), &free) {
    std::memset(bytes_.get(), kPattern, size + 2 * kGuard);
  }

  size_t size_;
  std::shared_ptr<uint8_t> bytes_;
};

inline std::vector<float> randomFloats(int64_t count, float low, float high, unsigned seed = 1) {
  std::mt19937 generator(seed);
  std::uniform_real_distribution<float> distribution(low, high);
  std::vector<float> values(count);
  for (float &value : values)
    value = distribution(generator);
  return values;
}

class KernelTester {
public:
  /// `kernels`: the text of plan.kernel ops.
  explicit KernelTester(const std::string &kernels, unsigned threads = 1);
  ~KernelTester();

  bool loaded() const;
  /// Error messages of parsing and compiling.
  const std::string &messages() const { return messages_; }
  /// Of the kernel (cuda: blocks); 0 when there is no such kernel.
  uint64_t units(const std::string &symbol) const;

  /// Runs the kernel on copies of its arguments, operands first. Results come back; all ways to run it must agree.
  /// inPlace[i] names the operand whose buffer result i takes, or -1.
  std::vector<Tensor> run(const std::string &symbol, const std::vector<Tensor> &operands,
                          const std::vector<Tensor> &results, const std::vector<int> &inPlace = {});

private:
  friend std::vector<float> runErf(const std::vector<float> &inputs);
  struct Compiled; // what the target's tester needs
  KernelTester() = default;

  std::string messages_;
  std::unique_ptr<Compiled> compiled_;
};

/// No tape op is erf alone: a kernel of math.erf, as the body of gelu has it.
std::vector<float> runErf(const std::vector<float> &inputs);

/// Replaces every $ in a text.
inline std::string substitute(std::string text, const std::string &value) {
  for (size_t at; (at = text.find('$')) != std::string::npos;)
    text.replace(at, 1, value);
  return text;
}

inline void expectNear(const std::vector<float> &actual, const std::vector<double> &expected, double relative,
                       double absolute, const std::string &what) {
  ASSERT_EQ(actual.size(), expected.size()) << what;
  for (size_t i = 0; i < actual.size(); ++i)
    ASSERT_NEAR(actual[i], expected[i], relative * std::fabs(expected[i]) + absolute) << what << " element " << i;
}

} // namespace tapeout::codegen
