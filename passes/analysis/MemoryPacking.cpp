#include "passes/analysis/MemoryPacking.h"

#include <algorithm>
#include <numeric>

namespace tapeout {

namespace {

struct Interval {
  uint64_t begin, end; // bytes [begin, end)
  bool operator<(const Interval &other) const { return begin < other.begin; }
};

/// A union of intervals, kept as disjoint ones in order.
class IntervalSet {
public:
  void add(Interval added) {
    auto first = std::lower_bound(intervals_.begin(), intervals_.end(), added.begin,
                                  [](const Interval &interval, uint64_t begin) { return interval.end < begin; });
    auto last = first;
    for (; last != intervals_.end() && last->begin <= added.end; ++last)
      added = {std::min(added.begin, last->begin), std::max(added.end, last->end)};
    intervals_.insert(intervals_.erase(first, last), added);
  }
  const std::vector<Interval> &intervals() const { return intervals_; }

private:
  std::vector<Interval> intervals_;
};

/// Where placed buffers lie, by spans of time. A deep model has tens of thousands of buffers, of which thousands live at
/// once: a buffer that covers a whole span meets all that touch it, so the span's union of intervals is all it must know.
/// Many spans in a row are few blocks of 2, 4, 8, ... spans, which have unions of their own.
class OccupiedBytes {
public:
  explicit OccupiedBytes(uint32_t instructions)
      : length_(std::max(16u, instructions / 256 + 1)), spans_(instructions / length_ + 1) {
    for (size_t blocks = spans_.size(); blocks > 1; blocks = (blocks + 1) / 2)
      touching_.emplace_back(blocks);
    touching_.emplace_back(1);
  }

  void add(const LiveBuffer &buffer, uint64_t offset) {
    Interval bytes{offset, offset + buffer.bytes};
    uint32_t first = buffer.begin / length_, last = buffer.end / length_;
    for (uint32_t level = 0; level < touching_.size(); ++level)
      for (uint32_t block = first >> level; block <= last >> level; ++block)
        touching_[level][block].add(bytes);
    for (uint32_t span = first; span <= last; ++span) {
      if (covers(buffer, span))
        spans_[span].covering.add(bytes);
      else
        spans_[span].partial.push_back({buffer, bytes});
    }
  }

  /// Bytes of buffers that live at the same time as `buffer`, in order of begin; they may overlap.
  void find(const LiveBuffer &buffer, std::vector<Interval> &occupied) const {
    occupied.clear();
    auto append = [&](const IntervalSet &set) {
      occupied.insert(occupied.end(), set.intervals().begin(), set.intervals().end());
    };
    uint32_t last = buffer.end / length_;
    for (uint32_t span = buffer.begin / length_; span <= last;) {
      if (covers(buffer, span)) { // and so all spans up to the last, which it may end in
        uint32_t level = 0, end = covers(buffer, last) ? last + 1 : last;
        while (level + 1 < touching_.size() && span % (2u << level) == 0 && span + (2u << level) <= end)
          ++level;
        append(touching_[level][span >> level]);
        span += 1u << level;
        continue;
      }
      append(spans_[span].covering);
      for (const auto &[other, bytes] : spans_[span].partial)
        if (other.begin <= buffer.end && buffer.begin <= other.end)
          occupied.push_back(bytes);
      ++span;
    }
    std::sort(occupied.begin(), occupied.end());
  }

private:
  struct Span {
    IntervalSet covering;
    std::vector<std::pair<LiveBuffer, Interval>> partial; // of those that touch but do not cover it
  };

  bool covers(const LiveBuffer &buffer, uint32_t span) const {
    return buffer.begin <= span * length_ && buffer.end >= (span + 1) * length_ - 1;
  }

  uint32_t length_; // instructions of a span
  std::vector<Span> spans_;
  std::vector<std::vector<IntervalSet>> touching_; // [level][block of 2^level spans]
};

/// The begin of the smallest gap that takes `size` bytes, else the end of everything.
uint64_t bestFit(const std::vector<Interval> &occupied, uint64_t size) {
  uint64_t end = 0, best = UINT64_MAX, bestGap = UINT64_MAX;
  for (const Interval &interval : occupied) {
    if (interval.begin > end && interval.begin - end >= size && interval.begin - end < bestGap) {
      bestGap = interval.begin - end;
      best = end;
    }
    end = std::max(end, interval.end);
  }
  return best == UINT64_MAX ? end : best;
}

} // namespace

/// Places the buffers in the given order.
static Packing placeInOrder(const std::vector<LiveBuffer> &buffers, const std::vector<uint32_t> &order, uint32_t instructions) {
  Packing packing;
  packing.offsets.resize(buffers.size());
  OccupiedBytes placed(instructions);
  std::vector<Interval> occupied;
  for (uint32_t index : order) {
    placed.find(buffers[index], occupied);
    packing.offsets[index] = bestFit(occupied, buffers[index].bytes);
    packing.bytes = std::max(packing.bytes, packing.offsets[index] + buffers[index].bytes);
    placed.add(buffers[index], packing.offsets[index]);
  }
  return packing;
}

Packing packMemory(const std::vector<LiveBuffer> &buffers) {
  uint32_t instructions = 0;
  for (const LiveBuffer &buffer : buffers)
    instructions = std::max(instructions, buffer.end);
  auto duration = [&](uint32_t i) { return uint64_t(buffers[i].end - buffers[i].begin + 1); };
  auto bytes = [&](uint32_t i) { return buffers[i].bytes; };
  auto area = [&](uint32_t i) { return buffers[i].bytes * duration(i); };

  Packing best;
  auto tryOrder = [&](auto key) {
    std::vector<uint32_t> order(buffers.size());
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) { return key(a) > key(b); });
    Packing packing = placeInOrder(buffers, order, instructions);
    if (best.offsets.empty() || packing.bytes < best.bytes)
      best = std::move(packing);
  };
  constexpr size_t kManyBuffers = 10000; // a packing of so many takes about a second
  tryOrder(bytes);
  bool again = buffers.size() <= kManyBuffers;
  if (again && best.bytes != peakLiveBytes(buffers)) // else nothing can be better
    tryOrder(area);
  if (again && best.bytes != peakLiveBytes(buffers))
    tryOrder(duration);
  return best;
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
