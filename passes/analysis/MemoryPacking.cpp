#include "passes/analysis/MemoryPacking.h"

#include <algorithm>
#include <numeric>

namespace tapeout {

namespace {

bool overlapInTime(const LiveBuffer &a, const LiveBuffer &b) { return a.begin <= b.end && b.begin <= a.end; }

/// Buffers already placed, found by time: each is listed in the coarse time spans it touches, long ones once apart.
class PlacedBuffers {
public:
  PlacedBuffers(const std::vector<LiveBuffer> &buffers, uint32_t instructions)
      : buffers_(buffers), spans_(instructions / kSpan + 1) {}

  void add(uint32_t index) {
    const LiveBuffer &buffer = buffers_[index];
    if (buffer.end - buffer.begin > kLongSpans * kSpan) {
      long_.push_back(index);
      return;
    }
    for (uint32_t span = buffer.begin / kSpan; span <= buffer.end / kSpan; ++span)
      spans_[span].push_back(index);
  }

  /// Indices of placed buffers that live at the same time as `index`, each once.
  std::vector<uint32_t> conflicts(uint32_t index) const {
    const LiveBuffer &buffer = buffers_[index];
    std::vector<uint32_t> result;
    auto take = [&](const std::vector<uint32_t> &candidates) {
      for (uint32_t candidate : candidates)
        if (overlapInTime(buffers_[candidate], buffer))
          result.push_back(candidate);
    };
    take(long_);
    for (uint32_t span = buffer.begin / kSpan; span <= buffer.end / kSpan; ++span)
      take(spans_[span]);
    std::sort(result.begin(), result.end());
    result.erase(std::unique(result.begin(), result.end()), result.end());
    return result;
  }

private:
  static constexpr uint32_t kSpan = 64, kLongSpans = 8;
  const std::vector<LiveBuffer> &buffers_;
  std::vector<std::vector<uint32_t>> spans_;
  std::vector<uint32_t> long_;
};

} // namespace

Packing packMemory(const std::vector<LiveBuffer> &buffers) {
  uint32_t instructions = 0;
  for (const LiveBuffer &buffer : buffers)
    instructions = std::max(instructions, buffer.end);
  std::vector<uint32_t> order(buffers.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) { return buffers[a].bytes > buffers[b].bytes; });

  Packing packing;
  packing.offsets.resize(buffers.size());
  PlacedBuffers placed(buffers, instructions);
  for (uint32_t index : order) {
    std::vector<uint32_t> conflicts = placed.conflicts(index);
    std::sort(conflicts.begin(), conflicts.end(), [&](uint32_t a, uint32_t b) {
      return std::pair(packing.offsets[a], a) < std::pair(packing.offsets[b], b);
    });
    uint64_t size = buffers[index].bytes, end = 0, best = UINT64_MAX, bestGap = UINT64_MAX;
    for (uint32_t other : conflicts) {
      uint64_t offset = packing.offsets[other];
      if (offset > end && offset - end >= size && offset - end < bestGap) {
        bestGap = offset - end;
        best = end;
      }
      end = std::max(end, offset + buffers[other].bytes);
    }
    packing.offsets[index] = best == UINT64_MAX ? end : best;
    packing.bytes = std::max(packing.bytes, packing.offsets[index] + size);
    placed.add(index);
  }
  return packing;
}

uint64_t peakLiveBytes(const std::vector<LiveBuffer> &buffers) {
  std::vector<std::pair<uint32_t, int64_t>> changes;
  for (const LiveBuffer &buffer : buffers) {
    changes.push_back({buffer.begin, static_cast<int64_t>(buffer.bytes)});
    changes.push_back({buffer.end + 1, -static_cast<int64_t>(buffer.bytes)});
  }
  std::sort(changes.begin(), changes.end()); // at one instruction, ends (negative) come first
  int64_t live = 0, peak = 0;
  for (auto [time, change] : changes)
    peak = std::max(peak, live += change);
  return static_cast<uint64_t>(peak);
}

} // namespace tapeout
