#include "passes/analysis/LossChunks.h"

#include <algorithm>

namespace tapeout {

namespace {

constexpr uint64_t kUncut = uint64_t(512) << 20; // bytes of logits that are computed at once
constexpr uint64_t kChunk = uint64_t(2) << 30;   // of a chunk: more chunks would save less than that
// Each chunk but the first reads and writes the weight's gradient once more: 8 bytes for each weight, beside 6 operations
// for each weight and position. At 700 TFLOP/s and 4 TB/s that is 6 % of the products' time at 4,096 positions.
constexpr int64_t kLeastPositions = 4096;

int64_t ceilDiv(int64_t a, int64_t b) { return a / b + (a % b != 0); }

int64_t chunksFor(const LogitsSize &logits) {
  if (logits.bytes <= kUncut)
    return 1;
  int64_t least = std::max<int64_t>(2, ceilDiv(logits.bytes, kChunk));
  int64_t most = std::max<int64_t>(1, logits.positions / kLeastPositions);
  for (int64_t chunks = least; chunks <= std::min(2 * least, most); ++chunks)
    if (logits.rows % (chunks * logits.granule) == 0) // equal ones
      return chunks;
  return std::min(least, most);
}

} // namespace

std::vector<int64_t> chooseLossChunks(const LogitsSize &logits, int64_t wanted) {
  int64_t chunks = wanted > 0 ? wanted : chunksFor(logits);
  int64_t rows = ceilDiv(ceilDiv(logits.rows, chunks), logits.granule) * logits.granule;
  std::vector<int64_t> sizes;
  for (int64_t begin = 0; begin < logits.rows; begin += rows)
    sizes.push_back(std::min(rows, logits.rows - begin));
  return sizes;
}

} // namespace tapeout
