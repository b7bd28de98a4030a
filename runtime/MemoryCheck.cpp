#include "runtime/MemoryCheck.h"

#include "runtime/PlanWindow.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>

namespace tapeout::rt {
namespace {

constexpr uint32_t kNobody = UINT32_MAX;

/// What an instruction does to slots, in slot indices.
struct Access {
  uint32_t slot;
  uint64_t bytes; // from the slot's start
};
struct Accesses {
  std::vector<Access> reads, writes;
};

Accesses accessesOf(const Plan &plan, const plan::Instruction &instruction) {
  Accesses result;
  auto read = [&](uint32_t slot) { result.reads.push_back({slot, shapeBytes(plan.slot(slot))}); };
  // Whatever follows the shape's bytes belongs to the writer as well.
  auto write = [&](uint32_t slot) { result.writes.push_back({slot, plan.slot(slot).bytes()}); };
  auto addLaunch = [&](const plan::Launch &launch, uint32_t first) {
    const plan::Kernel &kernel = *plan.root().kernels()->Get(launch.kernel());
    for (uint32_t i = first; i < kernel.argument_count(); ++i)
      i < kernel.argument_count() - kernel.result_count() ? read(launch.arguments()->Get(i))
                                                          : write(launch.arguments()->Get(i));
  };
  if (const plan::Launch *launch = instruction.body_as_Launch()) {
    addLaunch(*launch, 0);
  } else if (const plan::Matmul *matmul = instruction.body_as_Matmul()) {
    read(matmul->a());
    read(matmul->b());
    if (matmul->accumulate())
      read(matmul->c());
    write(matmul->c());
    if (matmul->epilogue())
      addLaunch(*matmul->epilogue(), 1); // its first argument is c
  } else if (const plan::Window *window = instruction.body_as_Window()) {
    for (uint32_t i = 0; i < window->arguments()->size(); ++i)
      i < argumentsOf(window->function()).reads ? read(window->arguments()->Get(i)) : write(window->arguments()->Get(i));
  } else if (const plan::Attention *attention = instruction.body_as_Attention()) {
    for (uint32_t i = 0; i < attention->operands()->size(); ++i)
      i < attentionReads(*attention) ? read(attention->operands()->Get(i)->slot()) : write(attention->operands()->Get(i)->slot());
    attention->backward() ? read(attention->lse()) : write(attention->lse());
    if (const plan::AttentionDropout *dropout = attention->dropout()) {
      read(dropout->seed());
      read(dropout->offset());
    }
    if (auto lengths = attention->lengths())
      read(*lengths);
  } else if (const plan::Copy *copy = instruction.body_as_Copy()) {
    result.reads.push_back({copy->source(), copy->bytes()});
    result.writes.push_back({copy->destination(), copy->bytes()});
  }
  if (auto scratch = instruction.scratch())
    write(*scratch);
  auto isPersistent = [&](const Access &access) { return plan.slot(access.slot).kind() != plan::SlotKind::Arena; };
  std::erase_if(result.reads, isPersistent);
  std::erase_if(result.writes, isPersistent);
  return result;
}

/// Which slot wrote each byte last. Segments cover the arena without holes; the key is a segment's start.
class Writers {
public:
  explicit Writers(uint64_t bytes) { segments_ = {{0, kNobody}, {bytes, kNobody}}; }

  void write(uint64_t begin, uint64_t end, uint32_t slot) {
    split(begin);
    split(end);
    auto first = segments_.find(begin);
    segments_.erase(std::next(first), segments_.find(end));
    first->second = slot;
  }

  /// The first writer other than `slot` of a byte in the range.
  std::optional<uint32_t> foreignWriter(uint64_t begin, uint64_t end, uint32_t slot) const {
    auto segment = std::prev(segments_.upper_bound(begin));
    for (; segment != segments_.end() && segment->first < end; ++segment)
      if (segment->second != slot)
        return segment->second;
    return std::nullopt;
  }

private:
  void split(uint64_t at) {
    auto segment = std::prev(segments_.upper_bound(at));
    segments_.emplace_hint(std::next(segment), at, segment->second);
  }

  std::map<uint64_t, uint32_t> segments_;
};

std::string describe(const Plan &plan, const plan::Program &program, uint32_t index) {
  uint32_t layer = program.instructions()->Get(index)->layer();
  return fmt::format("program '{}', instruction {} (layer '{}')", printable(program.name()), index,
                     printable(plan.root().layers()->Get(layer)));
}

} // namespace

Result<MemoryCheck> MemoryCheck::create(const Plan &plan, const plan::Program &program) {
  MemoryCheck check(plan, program);
  Writers writers(plan.arenaBytes());
  std::map<uint32_t, uint32_t> lastUse; // slot -> instruction
  uint32_t count = orEmpty(program.instructions()).size();
  for (uint32_t i = 0; i < count; ++i) {
    Accesses accesses = accessesOf(plan, *program.instructions()->Get(i));
    for (const Access &read : accesses.reads) {
      uint64_t offset = plan.slot(read.slot).offset();
      lastUse[read.slot] = i;
      std::optional<uint32_t> foreign = writers.foreignWriter(offset, offset + read.bytes, read.slot);
      if (!foreign)
        continue;
      std::string what = *foreign == kNobody
                             ? "before it is written"
                             : fmt::format("after '{}' was written over it", printable(plan.slot(*foreign).name()));
      return Status::error(
          ExitCode::BadData,
          fmt::format("memory check: {} reads '{}' {}; the compiler planned the memory wrongly, please "
                      "report this model",
                      describe(plan, program, i), printable(plan.slot(read.slot).name()), what));
    }
    for (const Access &write : accesses.writes) {
      uint64_t offset = plan.slot(write.slot).offset();
      lastUse[write.slot] = i;
      if (write.bytes > 0)
        writers.write(offset, offset + write.bytes, write.slot);
    }
  }
  check.dying_.resize(count);
  for (auto [slot, instruction] : lastUse)
    check.dying_[instruction].push_back(slot);
  return check;
}

Status MemoryCheck::checkPoison(std::span<const uint8_t> arena, uint64_t offset) const {
  auto found = std::find_if(arena.begin(), arena.end(), [](uint8_t byte) { return byte != kPoison; });
  if (found == arena.end())
    return Status::ok();
  return Status::error(
      ExitCode::BadData,
      fmt::format("memory check: a kernel of program '{}' has written outside its slots, to byte {} of "
                  "the arena's {}; please report this model",
                  printable(program_->name()), offset + (found - arena.begin()), plan_->arenaBytes()));
}

} // namespace tapeout::rt
