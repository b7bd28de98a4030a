// The sample table: one entry per op and interesting case, which drives every test of ops. A new op adds its entry to
// samples/<family>.cpp.
#pragma once

#include "ir/tape/Tape.h"
#include "ir/tape/TapeBuilder.h"

#include <functional>
#include <string>
#include <vector>

namespace tapeout::ops {

using Arrays = std::vector<std::vector<double>>;

/// An argument: random numbers in [low, high] (integers inclusive), or the given values.
struct Input {
  std::string element; // "f32", "bf16", "f16", "f64", "i1", "i32" or "i64"
  std::vector<int64_t> shape;
  double low = 0, high = 0;
  std::vector<double> values = {};
};
inline Input floats(std::vector<int64_t> shape, double low = -2, double high = 2) { return {"f32", shape, low, high}; }
inline Input integers(std::vector<int64_t> shape, int64_t low, int64_t high) {
  return {"i32", shape, static_cast<double>(low), static_cast<double>(high)};
}
inline Input booleans(std::vector<int64_t> shape) { return {"i1", shape, 0, 1}; }
inline Input scalar(std::string element, double value) { return {element, {}, 0, 0, {value}}; }

struct Sample {
  std::string name; // letters, digits, underscores; unique
  std::vector<Input> inputs;
  /// Builds the op under test; the function returns all its results.
  std::function<mlir::Value(tape::TapeBuilder &, mlir::ValueRange)> build;
  /// The results for these arguments, computed in double; none where the gradient of another sample is the check.
  std::function<Arrays(const Arrays &)> expected = nullptr;
  /// Results through which a gradient is checked, if the op is differentiable.
  std::vector<unsigned> gradientsOf = {0};
  /// The only target with a kernel for it; empty: all have one.
  std::string target = {};
};

/// All samples of all families.
const std::vector<Sample> &allSamples();

std::vector<Sample> attentionSamples();
std::vector<Sample> batchNormSamples();
std::vector<Sample> convolutionSamples();
std::vector<Sample> elementwiseSamples();
std::vector<Sample> embeddingSamples();
std::vector<Sample> fusionSamples();
std::vector<Sample> lossSamples();
std::vector<Sample> matMulSamples();
std::vector<Sample> normalizationSamples();
std::vector<Sample> optimizerSamples();
std::vector<Sample> poolingSamples();
std::vector<Sample> randomSamples();
std::vector<Sample> reductionSamples();
std::vector<Sample> rotarySamples();
std::vector<Sample> shapeSamples();

/// Element `i` of an array, or the only one of a scalar.
inline double at(const std::vector<double> &values, size_t i) { return values[values.size() == 1 ? 0 : i]; }
/// f of every element of the first, and of the first two arguments.
Arrays mapUnary(const Arrays &arguments, const std::function<double(double)> &f);
Arrays mapBinary(const Arrays &arguments, const std::function<double(double, double)> &f);

} // namespace tapeout::ops
