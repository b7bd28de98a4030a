// Hand-written kernels in the form the compiler generates, for the plans of TestPlans.cpp.
//
// Each exists under both suffixes, like generated ones. B = 16 samples of D = 8 numbers.
#include <math.h>
#include <stdint.h>

enum { kBatch = 16, kWidth = 8, kVocabulary = 256 };

#define KERNEL(name)                                                                                                   \
  static void name(void *const *args, int64_t begin, int64_t end);                                                     \
  void name##_avx2(void *const *args, int64_t begin, int64_t end) { name(args, begin, end); }                          \
  void name##_avx512(void *const *args, int64_t begin, int64_t end) { name(args, begin, end); }                        \
  static void name(void *const *args, int64_t begin, int64_t end)

// (prediction, y) -> difference; one unit per sample
KERNEL(difference) {
  const float *prediction = args[0], *y = args[1];
  float *out = args[2];
  for (int64_t i = begin; i < end; ++i)
    out[i] = prediction[i] - y[i];
}

// (difference) -> loss; one unit
KERNEL(mean_square) {
  const float *difference = args[0];
  float sum = 0;
  for (int i = 0; i < kBatch; ++i)
    sum += difference[i] * difference[i];
  *(float *)args[1] = sum / kBatch;
}

// (difference) -> loss sum, count; one unit
KERNEL(square_sum) {
  const float *difference = args[0];
  double sum = 0;
  for (int i = 0; i < kBatch; ++i)
    sum += (double)difference[i] * difference[i];
  *(double *)args[1] = sum;
  *(int64_t *)args[2] = kBatch;
}

// (gradient, config, step, w, momentum) -> w, momentum; one unit per weight
KERNEL(sgd) {
  const float *gradient = args[0];
  const double *config = args[1];
  const int64_t step = *(const int64_t *)args[2];
  const float *w = args[3], *momentum = args[4];
  float *newW = args[5], *newMomentum = args[6];
  double lr = config[0] * pow(0.999, (double)step); // a call into the C library, as generated kernels have
  for (int64_t i = begin; i < end; ++i) {
    newMomentum[i] = (float)config[9] * momentum[i] + gradient[i] * (2.0f / kBatch);
    newW[i] = w[i] - (float)lr * newMomentum[i];
  }
}

// (c[kBatch x 4], bias[4]) -> c; one unit per sample
KERNEL(add_bias) {
  const float *c = args[0], *bias = args[1];
  float *out = args[2];
  for (int64_t i = 4 * begin; i < 4 * end; ++i)
    out[i] = c[i] + bias[i % 4];
}

// (step) -> step; one unit
KERNEL(count_step) { *(int64_t *)args[1] = *(const int64_t *)args[0] + 1; }

// () -> x[kWidth * kBatch]: writes one float too many
KERNEL(overrun) {
  float *out = args[0];
  for (int i = 0; i <= kWidth * kBatch; ++i)
    out[i] = 1;
}

// (tokens, position, table[256 x 256]) -> logits[256]; one unit per token of the vocabulary
KERNEL(bigram) {
  const int32_t *tokens = args[0];
  const int64_t position = *(const int64_t *)args[1];
  const float *row = (const float *)args[2] + (int64_t)tokens[position] * kVocabulary;
  float *logits = args[3];
  for (int64_t i = begin; i < end; ++i)
    logits[i] = row[i];
}
