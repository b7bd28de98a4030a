#include "tests/codegen/cuda/GpuEmulator.h"

#include <sys/mman.h>
#include <ucontext.h>

#include <cmath>
#include <csetjmp>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace tapeout::codegen {
namespace {

constexpr size_t kStack = 256 * 1024;
constexpr unsigned kWarp = 32, kWarpgroup = 128;

/// What has been read and is still to be written.
struct Copy {
  void *to;
  std::string bytes;
};

struct Fiber {
  ucontext_t start;
  jmp_buf place; // where it waits: jumps need no call of the system, as contexts do
  bool started = false, ended = false;
  std::vector<Copy> copies;
};

/// Threads that meet: each leaves a word, and reads those of the others when all have come.
struct Meeting {
  unsigned members = 0, arrived = 0;
  uint64_t round = 0;
  std::vector<uint32_t> words[2]; // of this and of the last round
};

class Block {
public:
  Block(const Launch &launch, const std::function<void()> &thread)
      : launch_(launch), thread_(thread), fibers_(launch.threads), warps_((launch.threads + kWarp - 1) / kWarp),
        warpgroups_((launch.threads + kWarpgroup - 1) / kWarpgroup) {
    bytes_ = kStack * launch.threads;
    int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
    stacks_ = static_cast<char *>(mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, flags, -1, 0));
  }
  ~Block() { munmap(stacks_, bytes_); }

  std::string run(int64_t number) {
    block = number;
    all_ = Meeting{launch_.threads, 0, 0, {}};
    for (unsigned w = 0; w < warps_.size(); ++w)
      warps_[w] = Meeting{std::min(kWarp, launch_.threads - w * kWarp), 0, 0, {}};
    for (unsigned g = 0; g < warpgroups_.size(); ++g)
      warpgroups_[g] = Meeting{std::min(kWarpgroup, launch_.threads - g * kWarpgroup), 0, 0, {}};
    for (unsigned i = 0; i < fibers_.size(); ++i) {
      fibers_[i].started = fibers_[i].ended = false;
      fibers_[i].copies.clear();
      getcontext(&fibers_[i].start);
      fibers_[i].start.uc_stack.ss_sp = stacks_ + i * kStack;
      fibers_[i].start.uc_stack.ss_size = kStack;
      makecontext(&fibers_[i].start, &Block::start, 0);
    }
    for (size_t ended = 0; ended < fibers_.size();) {
      progress_ = false;
      for (size_t i = 0; i < fibers_.size(); ++i) {
        current = launch_.backwards ? fibers_.size() - 1 - i : i;
        if (fibers_[current].ended)
          continue;
        resume(fibers_[current]);
        ended += fibers_[current].ended;
        progress_ |= fibers_[current].ended;
      }
      if (!progress_)
        return "threads of block " + std::to_string(number) + " wait for others that have ended or wait elsewhere";
    }
    return "";
  }

  /// Leaves a word and waits; then the words of all members are there.
  const std::vector<uint32_t> &meet(Meeting &meeting, unsigned member, uint32_t word) {
    uint64_t round = meeting.round;
    std::vector<uint32_t> &words = meeting.words[round % 2];
    words.resize(meeting.members);
    words[member] = word;
    progress_ = true;
    if (++meeting.arrived == meeting.members) {
      meeting.arrived = 0;
      ++meeting.round;
    }
    while (meeting.round == round)
      yield();
    return words;
  }
  void yield() {
    if (_setjmp(fibers_[current].place) == 0)
      _longjmp(main_, 1);
  }
  void notify() { progress_ = true; }
  /// An asynchronous copy comes to its end at once, or when the thread waits for it: kernels must bear both.
  void copy(void *to, const void *from, size_t bytes) {
    if (launch_.backwards)
      fibers_[current].copies.push_back({to, std::string(static_cast<const char *>(from), bytes)});
    else
      std::memcpy(to, from, bytes);
  }
  void waitForCopies() {
    for (const Copy &copy : fibers_[current].copies)
      std::memcpy(copy.to, copy.bytes.data(), copy.bytes.size());
    fibers_[current].copies.clear();
  }

  Meeting &all() { return all_; }
  Meeting &warp() { return warps_[current / kWarp]; }
  Meeting &warpgroup() { return warpgroups_[current / kWarpgroup]; }
  int64_t blocks() const { return launch_.blocks; }

  unsigned current = 0;
  int64_t block = 0;

private:
  static void start();
  void resume(Fiber &fiber) {
    if (_setjmp(main_) != 0)
      return;
    if (fiber.started)
      _longjmp(fiber.place, 1);
    fiber.started = true;
    setcontext(&fiber.start);
  }

  const Launch &launch_;
  const std::function<void()> &thread_;
  std::vector<Fiber> fibers_;
  Meeting all_;
  std::vector<Meeting> warps_, warpgroups_;
  jmp_buf main_;
  char *stacks_;
  size_t bytes_;
  bool progress_ = false;
};

Block *running = nullptr;

void Block::start() {
  running->thread_();
  running->fibers_[running->current].ended = true;
  _longjmp(running->main_, 1);
}

void barrier() { running->meet(running->all(), running->current, 0); }
int32_t shuffle(int32_t, int32_t word, int32_t distance, int32_t) {
  unsigned lane = running->current % kWarp, from = lane ^ distance;
  const std::vector<uint32_t> &words = running->meet(running->warp(), lane, word);
  return from < words.size() ? words[from] : word;
}
int32_t ballot(int32_t, bool condition) {
  const std::vector<uint32_t> &words = running->meet(running->warp(), running->current % kWarp, condition);
  uint32_t bits = 0;
  for (size_t lane = 0; lane < words.size(); ++lane)
    bits |= words[lane] << lane;
  return bits;
}
int32_t matchAny(int32_t, int32_t word) {
  const std::vector<uint32_t> &words = running->meet(running->warp(), running->current % kWarp, word);
  uint32_t bits = 0;
  for (size_t lane = 0; lane < words.size(); ++lane)
    bits |= uint32_t(words[lane] == uint32_t(word)) << lane;
  return bits;
}
void warpBarrier(int32_t) { running->meet(running->warp(), running->current % kWarp, 0); }
float exponential(float x) { return std::exp2(x); }
float quotient(float a, float b) { return a / b; }
template <size_t kBytes> void copy(void *to, const void *from) { running->copy(to, from, kBytes); }
void waitForCopies() { running->waitForCopies(); }
int32_t lanesBefore() { return (1u << running->current % kWarp) - 1; }

} // namespace

namespace emulated {
int threadIndex() { return running->current; }
int blockIndex() { return running->block; }
int blockCount() { return running->blocks(); }
void syncBlock() { barrier(); }
void syncWarp() { warpBarrier(~0); }
void syncWarpgroup() { running->meet(running->warpgroup(), running->current % kWarpgroup, 0); }
uint32_t wordOf(uint32_t word, unsigned lane) { return wordsOf(word)[lane]; }
const std::vector<uint32_t> &wordsOf(uint32_t word) {
  return running->meet(running->warp(), running->current % kWarp, word);
}
void yield() { running->yield(); }
void notify() { running->notify(); }
} // namespace emulated

std::string runOnEmulator(const Launch &launch, const std::function<void()> &thread) {
  Block block(launch, thread);
  running = &block;
  for (int64_t i = 0; i < launch.blocks; ++i)
    if (std::string error = block.run(launch.backwards ? launch.blocks - 1 - i : i); !error.empty())
      return error;
  return "";
}

void *emulatedIntrinsic(const std::string &name) {
  static const std::map<std::string, void *> functions = {
      {"llvm.nvvm.read.ptx.sreg.tid.x", reinterpret_cast<void *>(emulated::threadIndex)},
      {"llvm.nvvm.read.ptx.sreg.ctaid.x", reinterpret_cast<void *>(emulated::blockIndex)},
      {"llvm.nvvm.barrier0", reinterpret_cast<void *>(barrier)},
      {"llvm.nvvm.shfl.sync.bfly.i32", reinterpret_cast<void *>(shuffle)},
      {"llvm.nvvm.vote.ballot.sync", reinterpret_cast<void *>(ballot)},
      {"llvm.nvvm.ex2.approx.ftz.f", reinterpret_cast<void *>(exponential)},
      {"llvm.nvvm.div.approx.ftz.f", reinterpret_cast<void *>(quotient)},
      {"llvm.nvvm.match.any.sync.i32", reinterpret_cast<void *>(matchAny)},
      {"llvm.nvvm.bar.warp.sync", reinterpret_cast<void *>(warpBarrier)},
      {"llvm.nvvm.cp.async.ca.shared.global.4", reinterpret_cast<void *>(copy<4>)},
      {"llvm.nvvm.cp.async.ca.shared.global.8", reinterpret_cast<void *>(copy<8>)},
      {"llvm.nvvm.cp.async.cg.shared.global.16", reinterpret_cast<void *>(copy<16>)},
      {"llvm.nvvm.cp.async.wait.all", reinterpret_cast<void *>(waitForCopies)},
      {"llvm.nvvm.read.ptx.sreg.lanemask.lt", reinterpret_cast<void *>(lanesBefore)},
  };
  auto found = functions.find(name);
  return found == functions.end() ? nullptr : found->second;
}

} // namespace tapeout::codegen
