#include "tests/ops/Sample.h"

namespace tapeout::ops {

const std::vector<Sample> &allSamples() {
  static const std::vector<Sample> samples = [] {
    std::vector<Sample> all;
    for (auto family :
         {attentionSamples, batchNormSamples, convolutionSamples, elementwiseSamples, embeddingSamples, fusionSamples,
          lossSamples, matMulSamples, normalizationSamples, optimizerSamples, poolingSamples, randomSamples,
          reductionSamples, rotarySamples, shapeSamples}) {
      std::vector<Sample> samples = family();
      all.insert(all.end(), samples.begin(), samples.end());
    }
    return all;
  }();
  return samples;
}

Arrays mapUnary(const Arrays &arguments, const std::function<double(double)> &f) {
  Arrays result(1);
  for (double value : arguments[0])
    result[0].push_back(f(value));
  return result;
}

Arrays mapBinary(const Arrays &arguments, const std::function<double(double, double)> &f) {
  Arrays result(1);
  for (size_t i = 0; i < std::max(arguments[0].size(), arguments[1].size()); ++i)
    result[0].push_back(f(at(arguments[0], i), at(arguments[1], i)));
  return result;
}

} // namespace tapeout::ops
