// Runs the threads of GPU kernels on the processor, so that kernels are tested without a GPU. Every thread of a block is
// a fiber with a stack of its own; a barrier, a shuffle or a vote hands over to the others.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace tapeout::codegen {

struct Launch {
  int64_t blocks;
  unsigned threads;       // per block
  bool backwards = false; // blocks and threads in the other order: what depends on it is a race
};

/// Calls `thread` for every thread of every block. Returns what went wrong, or "": threads that wait for others which have
/// ended.
std::string runOnEmulator(const Launch &launch, const std::function<void()> &thread);

/// What a running thread asks and does.
namespace emulated {
int threadIndex();
int blockIndex();
int blockCount();
// All threads of the block, of a warp or of a warpgroup of 128 arrive before any goes on.
void syncBlock();
void syncWarp();
void syncWarpgroup();
/// The word of one thread of the warp; all of them call it.
uint32_t wordOf(uint32_t word, unsigned lane);
/// Those of all; until the thread's next call.
const std::vector<uint32_t> &wordsOf(uint32_t word);
/// Lets other threads run: for waiting until something changes, which the thread that changes it tells by `notify`.
void yield();
void notify();
} // namespace emulated

/// What kernels call instead of NVPTX's intrinsics, by the intrinsic's name; null for one that is not known.
void *emulatedIntrinsic(const std::string &name);

} // namespace tapeout::codegen
