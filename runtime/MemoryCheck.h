// --check-memory: proves that a program's use of the arena is sound, and catches kernels that leave their slots.
//
// 1. Before the first run (MemoryCheck::create): the program is walked with a map of which slot wrote each arena byte
//    last. An instruction that reads bytes which nothing or another slot has written names both slots.
// 2. In every run: the arena is filled with 0xff (NaN in every float type), and so is a slot after its last use, so
//    that a read of dead memory shows in the numbers; at the end all of it must still be 0xff.
#pragma once

#include "runtime/Plan.h"

#include <cstddef>
#include <span>
#include <vector>

namespace tapeout::rt {

class MemoryCheck {
public:
  static constexpr uint8_t kPoison = 0xff;

  /// BadData for a program that reads what it has not written.
  static Result<MemoryCheck> create(const Plan &plan, const plan::Program &program);

  /// Slots with their last use in this instruction.
  std::span<const uint32_t> dyingAfter(size_t instruction) const { return dying_[instruction]; }
  /// `arena`, from its byte `offset` on, as it is after a run. BadData when a kernel has written outside its slots.
  Status checkPoison(std::span<const uint8_t> arena, uint64_t offset = 0) const;

private:
  MemoryCheck(const Plan &plan, const plan::Program &program) : plan_(&plan), program_(&program) {}

  const Plan *plan_;
  const plan::Program *program_;
  std::vector<std::vector<uint32_t>> dying_; // per instruction
};

} // namespace tapeout::rt
