#include "tests/codegen/cuda/EmulatedBlock.h"

#include <cmath>
#include <memory>

namespace tapeout::codegen {

Block *block = nullptr;

namespace {

Box boxOf(const hopper::TensorMap &map, int column, int row, uint32_t at) {
  std::array<char, sizeof map> bytes = std::bit_cast<std::array<char, sizeof map>>(map);
  Box box{{}, column, row, at, 0, {}};
  std::memcpy(&box.map, bytes.data(), sizeof box.map);
  if (box.map.mark != kMapMark || box.map.boxColumns * 2 != int(hopper::kRowBytes)) {
    block->fail("copies a box by what is no map of boxes with rows of 128 bytes");
    box.map = {};
  }
  if (at % 1024 != 0)
    block->fail("a box of swizzled rows is not at a multiple of 1,024");
  return box;
}

/// Arrives at the turn of `group`.
void arriveAtTurn(int group) {
  if (++block->turns[group].arrived == 2 * hopper::kWarpgroup) {
    block->turns[group].arrived = 0;
    ++block->turns[group].round;
  }
  emulated::notify();
}

} // namespace

hopper::TensorMap emulatedMap(const void *matrix, int64_t rows, int64_t columns, int32_t boxRows, int32_t boxColumns) {
  const Map map{kMapMark, static_cast<char *>(const_cast<void *>(matrix)), rows, columns, boxRows, boxColumns};
  hopper::TensorMap result{};
  static_assert(sizeof map <= sizeof result);
  std::memcpy(&result, &map, sizeof map);
  return result;
}

std::string runOnHopperEmulator(const Launch &launch, uint32_t sharedBytes, const std::function<void()> &thread) {
  std::unique_ptr<Block> current;
  int number = -1;
  std::string error;
  std::string waiting = runOnEmulator(launch, [&] {
    if (emulated::blockIndex() != number) {
      number = emulated::blockIndex();
      current = std::make_unique<Block>(sharedBytes, launch.threads);
      block = current.get();
    }
    thread();
    const Thread &ended = block->thread();
    if (!ended.copies.empty() || !ended.products.empty() || !ended.stores.empty())
      block->fail("ends before its copies or products");
    if (error.empty())
      error = block->error;
  });
  if (error.empty() && block)
    error = block->error; // of threads that have not ended
  block = nullptr;
  return error.empty() ? waiting : error;
}

} // namespace tapeout::codegen

namespace hopper {

using namespace tapeout;
using namespace tapeout::codegen;

int threadIndex() { return emulated::threadIndex(); }
int blockIndex() { return emulated::blockIndex(); }
int blockCount() { return emulated::blockCount(); }
int uniform(int value) { return int(emulated::wordOf(value, 0)); }
float fromLane(float value, int lane) {
  return std::bit_cast<float>(emulated::wordOf(std::bit_cast<uint32_t>(value), lane));
}
float fromNeighbour(float value) { return fromLane(value, lane() ^ 1); }

uint32_t sharedMemory() { return kBase; }

void syncBlock() { emulated::syncBlock(); }
void syncWarp() { emulated::syncWarp(); }
void syncGroup(int group) {
  if (group != threadIndex() / kWarpgroup)
    block->fail("waits for another warpgroup");
  emulated::syncWarpgroup();
}

void waitForTurn(int group) {
  if (group != threadIndex() / kWarpgroup)
    block->fail("waits for another warpgroup's turn");
  const uint64_t round = block->turns[group].round;
  arriveAtTurn(group);
  while (block->turns[group].round == round)
    emulated::yield();
}
void giveTurn(int group) {
  if (group == threadIndex() / kWarpgroup)
    block->fail("gives itself the turn");
  arriveAtTurn(group);
}

void initBarrier(uint32_t barrier, uint32_t arrivals) {
  block->store(barrier, {arrivals, arrivals, 0, 0});
  block->barriers[barrier] = false;
}
void fenceBarrierInit() {
  for (auto &[barrier, fenced] : block->barriers)
    fenced = true;
}
void arrive(uint32_t barrier) { arriveExpecting(barrier, 0); }
void arriveExpecting(uint32_t barrier, uint32_t bytes) {
  Barrier state = block->load(barrier);
  if (state.missing == 0)
    block->fail("arrives at a barrier whose phase has all arrivals");
  state.bytes += bytes;
  --state.missing;
  block->finishPhase(barrier, state);
  emulated::notify();
}
void wait(uint32_t barrier, uint32_t parity) {
  while ((block->load(barrier).phase & 1) == parity) {
    block->landLoads(barrier);
    if ((block->load(barrier).phase & 1) == parity)
      emulated::yield();
  }
}

void loadBox(uint32_t to, const TensorMap &map, int column, int row, uint32_t barrier) {
  Box box = boxOf(map, column, row, to);
  box.barrier = barrier;
  if (!block->barriers[barrier])
    block->fail("a box is to arrive at a barrier whose initialisation no fence has made visible");
  box.forEachChunk([](uint32_t address, const char *) {
    block->at(address, kChunk);
    if (block->chunkOf(address).outgoing)
      block->fail("copies a box to where another one has still to be read");
    ++block->chunkOf(address).incoming;
  });
  block->loads.push_back(box);
}
void storeBox(const TensorMap &map, int column, int row, uint32_t from) {
  Box box = boxOf(map, column, row, from);
  box.forEachChunk([](uint32_t address, const char *) {
    block->operand(address);
    ++block->chunkOf(address).outgoing;
  });
  block->thread().stores.push_back(box);
}
void waitForBoxReads(int unread) {
  std::vector<Box> &stores = block->thread().stores;
  for (size_t i = 0; i + unread < stores.size(); ++i)
    if (stores[i].read.empty())
      stores[i].forEachChunk([&](uint32_t address, const char *) {
        const char *chunk = block->at(address, kChunk);
        stores[i].read.insert(stores[i].read.end(), chunk, chunk + kChunk);
        --block->chunkOf(address).outgoing;
      });
}
void waitForBoxes() {
  waitForBoxReads(0);
  for (const Box &box : block->thread().stores) {
    const char *from = box.read.data();
    box.forEachChunk([&](uint32_t, char *to) {
      if (to)
        std::memcpy(to, from, kChunk);
      from += kChunk;
    });
  }
  block->thread().stores.clear();
}

void copy16(uint32_t to, const void *from, bool exists) {
  if (reinterpret_cast<uintptr_t>(from) % 16 != 0)
    block->fail("copies 16 bytes that are not aligned");
  block->thread().copies.push_back({to, 16, exists ? from : nullptr});
}
void copy4(uint32_t to, const void *from, bool exists) {
  block->thread().copies.push_back({to, 4, exists ? from : nullptr});
}
void waitForCopies() {
  for (const Copy &copy : block->thread().copies)
    block->write(copy.to, copy.from, copy.bytes);
  block->thread().copies.clear();
}
void arriveAfterCopies(uint32_t barrier) {
  waitForCopies();
  arrive(barrier);
}
void fenceForProducts() { block->thread().fenced = ++block->time; }

Words4 loadShared16(uint32_t at) { return *reinterpret_cast<const Words4 *>(block->read(at, 16)); }
Floats4 loadFloats4(uint32_t at) { return std::bit_cast<Floats4>(loadShared16(at)); }
float loadFloat(uint32_t at) { return *reinterpret_cast<const float *>(block->read(at, 4)); }
void storeShared(uint32_t at, uint32_t word) { block->write(at, &word, 4); }
Words4 loadTransposed(uint32_t at) {
  block->at(at, kChunk);
  const std::vector<uint32_t> &rows = emulated::wordsOf(at);
  Words4 v;
  for (int m = 0; m < 4; ++m) {
    auto element = [&](int odd) {
      return *reinterpret_cast<const uint16_t *>(
          block->read(rows[8 * m + 2 * (lane() % kQuad) + odd] + lane() / kQuad * 2, 2));
    };
    v.word[m] = element(0) | uint32_t(element(1)) << 16;
  }
  emulated::syncWarp(); // none of the warp writes before all have read
  return v;
}
void storeTransposed(uint32_t at, Words4 v) {
  block->at(at, kChunk);
  const std::vector<uint32_t> &rows = emulated::wordsOf(at);
  for (int m = 0; m < 4; ++m)
    for (int odd = 0; odd < 2; ++odd) {
      const uint16_t element = v.word[m] >> 16 * odd;
      block->write(rows[8 * m + 2 * (lane() % kQuad) + odd] + lane() / kQuad * 2, &element, 2);
    }
}
template <typename T> void storeGlobal(void *at, const T &value) {
  if (reinterpret_cast<uintptr_t>(at) % sizeof value != 0)
    block->fail("writes " + std::to_string(sizeof value) + " bytes that are not aligned");
  std::memcpy(at, &value, sizeof value);
}
void storeGlobal16(void *at, Words4 v) { storeGlobal(at, v); }
void storeGlobal8(void *at, float a, float b) { storeGlobal(at, std::array{a, b}); }

float exp2(float x) { return std::exp2(x); }

} // namespace hopper
