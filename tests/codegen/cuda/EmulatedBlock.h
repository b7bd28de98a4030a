// What a block of EmulatedHopper.cpp and EmulatedProducts.cpp has: its shared memory, and what is in flight.
#pragma once

#include "tests/codegen/cuda/HopperEmulator.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <map>
#include <string>
#include <vector>

namespace tapeout::codegen {

// Addresses do not begin at 0, so that a sum that lacks the base shows.
constexpr uint32_t kBase = 1024, kChunk = 16;
constexpr int kQuad = 4; // threads that share rows of a product

inline int lane() { return emulated::threadIndex() % hopper::kWarp; }

struct Copy {
  uint32_t to, bytes;
  const void *from; // null: zeros
};

/// A matrix by boxes, as it lies in a hopper::TensorMap.
struct Map {
  uint64_t mark;
  char *matrix;
  int64_t rows, columns;
  int32_t boxRows, boxColumns;

  /// 8 elements; null: behind the matrix.
  char *chunk(int row, int column) const {
    return row < rows && column < columns ? matrix + 2 * (row * columns + column) : nullptr;
  }
};
constexpr uint64_t kMapMark = 0x54656E736F724D61;

/// A box between the matrix, from `row` and `column` on, and shared memory.
struct Box {
  Map map;
  int column, row;
  uint32_t at;
  uint32_t barrier;       // of a copy to shared memory
  std::vector<char> read; // of a copy from there: what has been read already

  /// Calls `visit` with the address of every chunk and the matrix's 8 elements.
  template <typename Visit> void forEachChunk(Visit visit) const {
    for (int r = 0; r < map.boxRows; ++r)
      for (int piece = 0; piece < 8; ++piece)
        visit(at + hopper::swizzled(r, piece), map.chunk(row + r, column + 8 * piece));
  }
  uint32_t bytes() const { return map.boxRows * hopper::kRowBytes; }
};

/// d += a b of 16 columns of `a`. One of a thread's; its warp's other threads have the same.
struct Product {
  float *d;
  int numbers; // of d
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
  std::array<float, 80> value;
};

struct Thread {
  std::vector<Copy> copies;
  std::vector<Box> stores;
  std::vector<Product> products;
  std::vector<Sums> sums;
  int batches = 0;
  bool begun = false;  // products, by a fence
  uint64_t fenced = 0; // memory for products: when
};

/// An mbarrier, which lies in shared memory.
struct Barrier {
  uint64_t arrivals : 12, missing : 12, phase : 16;
  int64_t bytes : 24; // expected of boxes
};
static_assert(sizeof(Barrier) == 8);

/// A named barrier of two warpgroups.
struct Turn {
  int arrived = 0;
  uint64_t round = 0;
};

struct Block {
  std::vector<char> memory;
  struct Chunk {
    uint64_t time; // of the last writing
    int thread;
    int incoming, outgoing; // boxes that have still to be written here, to be read from here
  };
  std::vector<Chunk> chunks;
  std::vector<Thread> threads;
  std::vector<Box> loads; // that have not come yet
  Turn turns[2];
  std::map<uint32_t, bool> barriers; // that are initialised, and whether boxes may arrive there
  uint64_t time = 0;
  std::string error;

  Block(uint32_t sharedBytes, unsigned threadCount)
      : memory(sharedBytes, char(0xFF)), chunks(sharedBytes / kChunk + 1), threads(threadCount) {}

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
  Chunk &chunkOf(uint32_t address) {
    return chunks[std::min<size_t>((address - kBase) / kChunk, chunks.size() - 1)];
  }
  const char *read(uint32_t address, uint32_t bytes) {
    const char *from = at(address, bytes);
    if (chunkOf(address).incoming)
      fail("reads shared memory before its box has come");
    return from;
  }
  void write(uint32_t address, const void *from, uint32_t bytes) {
    char *to = at(address, bytes);
    Chunk &chunk = chunkOf(address);
    if (chunk.incoming)
      fail("writes where a box is still to come");
    if (chunk.outgoing)
      fail("writes where a box has still to be read");
    from ? std::memcpy(to, from, bytes) : std::memset(to, 0, bytes);
    chunk.time = ++time;
    chunk.thread = emulated::threadIndex();
  }
  /// What a product or a copied box reads: a fence of the one that wrote or of the one that reads must lie between.
  const uint16_t *operand(uint32_t address) {
    const char *from = read(address, kChunk);
    const Chunk &last = chunkOf(address);
    if (last.time > thread().fenced && last.time > threads[last.thread].fenced)
      fail("a product or a box reads what no fence has made visible to it");
    return reinterpret_cast<const uint16_t *>(from);
  }
  /// The boxes of the barrier's phase, of which nobody knows until then whether they have come.
  void landLoads(uint32_t barrier) {
    Barrier state = load(barrier);
    if (state.missing != 0)
      return;
    auto others = std::stable_partition(loads.begin(), loads.end(), [&](const Box &b) { return b.barrier != barrier; });
    for (auto box = others; box != loads.end(); ++box) {
      state.bytes -= box->bytes();
      box->forEachChunk([&](uint32_t address, const char *from) {
        char *to = at(address, kChunk);
        from ? std::memcpy(to, from, kChunk) : std::memset(to, 0, kChunk);
        --chunkOf(address).incoming;
        chunkOf(address).time = 0;
      });
    }
    loads.erase(others, loads.end());
    if (state.bytes < 0)
      fail("more bytes come than the barrier expects");
    finishPhase(barrier, state);
  }
  void finishPhase(uint32_t barrier, Barrier state) {
    if (state.missing == 0 && state.bytes == 0) {
      state.missing = state.arrivals;
      ++state.phase;
      emulated::notify();
    }
    store(barrier, state);
  }
  Barrier load(uint32_t barrier) {
    if (!barriers.contains(barrier))
      fail("uses a barrier before it has been initialised");
    return std::bit_cast<Barrier>(*reinterpret_cast<uint64_t *>(at(barrier, sizeof(Barrier))));
  }
  void store(uint32_t barrier, Barrier value) { std::memcpy(at(barrier, sizeof(Barrier)), &value, sizeof value); }
};

extern Block *block; // that runs

} // namespace tapeout::codegen
