#include "runtime/device/cpu/Pooling.h"

#include <immintrin.h>

#include <algorithm>
#include <type_traits>
#include <vector>

namespace tapeout::rt {

namespace {

constexpr int64_t grainElements = 16384; // work worth waking a thread for

constexpr int64_t divideUp(int64_t x, int64_t y) { return (x + y - 1) / y; }

/// Calls body(plane) for all planes.
template <typename Body> void forPlanes(const WindowShape &window, int64_t planes, ThreadPool &pool, const Body &body) {
  int64_t grain = divideUp(grainElements, window.height * window.width);
  pool.parallelFor(planes, grain, [&](int64_t begin, int64_t end) {
    for (int64_t plane = begin; plane < end; ++plane)
      body(plane);
  });
}

/// One row of an element of the window: columns [begin, end) of the output read input columns from + i * strideX.
struct TapRow {
  int64_t tap;           // row * kernelWidth + column
  int64_t begin, end;    // of the output
  int64_t input, output; // offsets in the planes of column 0; that of the input may lie outside
};

/// Calls body for all elements of the windows of all output rows, row by row, within a row in the order of the window.
template <typename Body> void forTapRows(const WindowShape &w, const Body &body) {
  for (int64_t y = 0; y < w.outHeight; ++y)
    for (int64_t r = 0; r < w.kernelHeight; ++r) {
      int64_t row = y * w.strideY + r - w.padTop;
      if (row < 0 || row >= w.height)
        continue;
      for (int64_t s = 0; s < w.kernelWidth; ++s) {
        int64_t first = s - w.padLeft; // input column of output column 0
        int64_t begin = first < 0 ? divideUp(-first, w.strideX) : 0;
        int64_t end = first >= w.width ? 0 : std::min(w.outWidth, divideUp(w.width - first, w.strideX));
        if (begin < end)
          body(TapRow{r * w.kernelWidth + s, begin, end, row * w.width + first, y * w.outWidth});
      }
    }
}

/// Calls body with the stride as a constant where it is a usual one, so that loops become vectors.
template <typename Body> void withStride(int64_t stride, const Body &body) {
  if (stride == 1)
    body(std::integral_constant<int64_t, 1>());
  else if (stride == 2)
    body(std::integral_constant<int64_t, 2>());
  else
    body(stride);
}

/// The maximum of one output row after another; all windows of a row see the same rows of the input.
template <int64_t Stride> class MaximumRows { // Stride 0: not known here
public:
  MaximumRows(const WindowShape &window, const float *plane) : w_(window), plane_(plane) {
    // Columns of the output whose windows lie inside of the plane, from left to right.
    left_ = std::min(w_.outWidth, divideUp(w_.padLeft, w_.strideX));
    right_ = w_.width + w_.padLeft < w_.kernelWidth ? 0 : (w_.width + w_.padLeft - w_.kernelWidth) / w_.strideX + 1;
    right_ = std::clamp(right_, left_, w_.outWidth);
  }

  void compute(int64_t y, float *to, int32_t *which) const {
    int64_t first = y * w_.strideY - w_.padTop, begin = std::max<int64_t>(0, -first),
            end = std::min(w_.kernelHeight, w_.height - first);
    const float *row = plane_ + first * w_.width - w_.padLeft; // of the window's row 0, column 0
    auto single = [&](int64_t x) { computeOne(row, x, begin, end, to[x], which[x]); };
    for (int64_t x = 0; x < left_; ++x)
      single(x);
    for (int64_t x = left_; x < right_; x += kLanes)
      if constexpr (Stride != 0)
        computeVector(row + x * Stride, std::min(kLanes, right_ - x), begin, end, to + x, which + x);
      else
        for (int64_t i = x; i < std::min(x + kLanes, right_); ++i)
          single(i);
    for (int64_t x = right_; x < w_.outWidth; ++x)
      single(x);
  }

private:
  static constexpr int64_t kLanes = 8;

  static __m256i maskOf(int64_t lanes) {
    return _mm256_cmpgt_epi32(_mm256_set1_epi32(static_cast<int>(lanes)), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
  }

  void computeOne(const float *row, int64_t x, int64_t begin, int64_t end, float &best, int32_t &which) const {
    int64_t column = x * w_.strideX; // of the window's column 0, plus padLeft
    int64_t left = std::max<int64_t>(0, w_.padLeft - column),
            right = std::min(w_.kernelWidth, w_.width + w_.padLeft - column);
    bool isFirst = true;
    for (int64_t r = begin; r < end; ++r)
      for (int64_t s = left; s < right; ++s) {
        float value = row[r * w_.width + column + s];
        if (isFirst || (!(value <= best) && best == best)) {
          best = value;
          which = static_cast<int32_t>(r * w_.kernelWidth + s);
        }
        isFirst = false;
      }
  }

  /// Every Stride-th of the elements from `from` on, touching no more than needed.
  static __m256 load(const float *from, int64_t lanes) {
    if constexpr (Stride == 1)
      return _mm256_maskload_ps(from, maskOf(lanes));
    __m256 low = _mm256_maskload_ps(from, maskOf(2 * lanes - 1)),
           high = _mm256_maskload_ps(from + kLanes, maskOf(2 * lanes - 1 - kLanes));
    __m256 even = _mm256_shuffle_ps(low, high, 0x88);
    return _mm256_castpd_ps(_mm256_permute4x64_pd(_mm256_castps_pd(even), 0xd8));
  }

  void computeVector(const float *row, int64_t lanes, int64_t begin, int64_t end, float *to, int32_t *which) const {
    __m256 best = load(row + begin * w_.width, lanes);
    __m256i bestTap = _mm256_set1_epi32(static_cast<int>(begin * w_.kernelWidth));
    for (int64_t r = begin; r < end; ++r)
      for (int64_t s = r == begin; s < w_.kernelWidth; ++s) {
        __m256 value = load(row + r * w_.width + s, lanes);
        __m256 takes = _mm256_and_ps(_mm256_cmp_ps(value, best, _CMP_NLE_UQ), _mm256_cmp_ps(best, best, _CMP_EQ_OQ));
        best = _mm256_blendv_ps(best, value, takes);
        __m256i tap = _mm256_set1_epi32(static_cast<int>(r * w_.kernelWidth + s));
        bestTap = _mm256_blendv_epi8(bestTap, tap, _mm256_castps_si256(takes));
      }
    _mm256_maskstore_ps(to, maskOf(lanes), best);
    _mm256_maskstore_epi32(which, maskOf(lanes), bestTap);
  }

  const WindowShape &w_;
  const float *plane_;
  int64_t left_, right_;
};

template <int64_t Stride> void poolMaximumBy(const WindowShape &window, int64_t planes, const float *x, float *y,
                                             int32_t *index, ThreadPool &pool) {
  int64_t inPlane = window.height * window.width, outPlane = window.outHeight * window.outWidth;
  forPlanes(window, planes, pool, [&](int64_t plane) {
    MaximumRows<Stride> rows(window, x + plane * inPlane);
    for (int64_t row = 0; row < window.outHeight; ++row)
      rows.compute(row, y + plane * outPlane + row * window.outWidth, index + plane * outPlane + row * window.outWidth);
  });
}

} // namespace

void poolMaximum(const WindowShape &window, int64_t planes, const float *x, float *y, int32_t *index,
                 ThreadPool &pool) {
  auto *compute = window.strideX == 1 ? poolMaximumBy<1> : window.strideX == 2 ? poolMaximumBy<2> : poolMaximumBy<0>;
  compute(window, planes, x, y, index, pool);
}

void poolMaximumGradient(const WindowShape &window, int64_t planes, const int32_t *index, const float *dy, float *dx,
                         ThreadPool &pool) {
  int64_t inPlane = window.height * window.width, outPlane = window.outHeight * window.outWidth;
  std::vector<int64_t> offsets; // of the elements of a window
  for (int64_t tap = 0; tap < window.kernelHeight * window.kernelWidth; ++tap)
    offsets.push_back(tap / window.kernelWidth * window.width + tap % window.kernelWidth);
  forPlanes(window, planes, pool, [&](int64_t plane) {
    const int32_t *which = index + plane * outPlane;
    const float *from = dy + plane * outPlane;
    float *to = dx + plane * inPlane;
    std::fill_n(to, inPlane, 0.0f);
    for (int64_t y = 0; y < window.outHeight; ++y) {
      int64_t at = (y * window.strideY - window.padTop) * window.width - window.padLeft;
      for (int64_t x = 0; x < window.outWidth; ++x, at += window.strideX, ++which, ++from)
        if (static_cast<uint32_t>(*which) < offsets.size()) // an index is data: nothing may be written elsewhere
          if (int64_t element = at + offsets[*which]; static_cast<uint64_t>(element) < static_cast<uint64_t>(inPlane))
            to[element] += *from;
    }
  });
}

void poolAverage(const WindowShape &window, int64_t planes, const float *x, float *y, ThreadPool &pool) {
  int64_t inPlane = window.height * window.width, outPlane = window.outHeight * window.outWidth;
  const float size = static_cast<float>(window.kernelHeight * window.kernelWidth);
  withStride(window.strideX, [&](auto stride) {
    forPlanes(window, planes, pool, [&](int64_t plane) {
      const float *__restrict from = x + plane * inPlane;
      float *__restrict to = y + plane * outPlane;
      std::fill_n(to, outPlane, 0.0f);
      forTapRows(window, [&](const TapRow &row) {
        for (int64_t i = row.begin; i < row.end; ++i)
          to[row.output + i] += from[row.input + i * stride];
      });
      for (int64_t i = 0; i < outPlane; ++i)
        to[i] /= size;
    });
  });
}

void poolAverageGradient(const WindowShape &window, int64_t planes, const float *dy, float *dx, ThreadPool &pool) {
  int64_t inPlane = window.height * window.width, outPlane = window.outHeight * window.outWidth;
  const float size = static_cast<float>(window.kernelHeight * window.kernelWidth);
  withStride(window.strideX, [&](auto stride) {
    forPlanes(window, planes, pool, [&](int64_t plane) {
      const float *__restrict from = dy + plane * outPlane;
      float *__restrict to = dx + plane * inPlane;
      std::fill_n(to, inPlane, 0.0f);
      forTapRows(window, [&](const TapRow &row) {
        for (int64_t i = row.begin; i < row.end; ++i)
          to[row.input + i * stride] += from[row.output + i] / size;
      });
    });
  });
}

} // namespace tapeout::rt
