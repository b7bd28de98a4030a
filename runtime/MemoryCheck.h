// --check-memory: proves that a program's use of the arena is sound, and catches kernels that leave their slots.
//
// 1. Before the first run (MemoryCheck::create): the program is walked with a map of which slot wrote each arena byte
//    last. An instruction that reads bytes which nothing or another slot has written names both slots.
// 2. In every run: the arena is filled with 0xff (NaN in every float type), and so is a slot after its last use, so
//    that a read of dead memory shows in the numbers; at the end all of it must still be 0xff.
#pragma once

#include "runtime/Arena.h"
#include "runtime/Plan.h"

#include <cstddef>
#include <vector>

namespace tapeout::rt {

class MemoryCheck {
public:
  /// BadData for a program that reads what it has not written. `arena` outlives the result.
  static Result<MemoryCheck> create(const Plan &plan, const plan::Program &program, const Arena &arena);

  void beforeRun() const;
  void afterInstruction(size_t index) const;
  /// BadData when a kernel has written outside its slots.
  Status afterRun() const;

private:
  MemoryCheck(const Plan &plan, const plan::Program &program, const Arena &arena)
      : plan_(&plan), program_(&program), arena_(&arena) {}

  const Plan *plan_;
  const plan::Program *program_;
  const Arena *arena_;
  std::vector<std::vector<uint32_t>> dying_; // per instruction: slots with their last use there
};

} // namespace tapeout::rt
