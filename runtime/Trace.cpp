#include "runtime/Trace.h"

#include "runtime/base/AtomicFile.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>

namespace tapeout::rt {

const char *phaseName(uint8_t phase) {
  constexpr std::array<const char *, 5> names = {"forward", "loss", "backward", "optimizer", "other"};
  return names[std::min<size_t>(phase, names.size() - 1)];
}

std::string instructionName(const Plan &plan, const plan::Instruction &instruction) {
  if (const plan::Launch *launch = instruction.body_as_Launch())
    return plan.root().kernels()->Get(launch->kernel())->symbol()->str();
  if (const plan::Matmul *matmul = instruction.body_as_Matmul())
    return fmt::format("matmul {} x {} x {}", matmul->m(), matmul->n(), matmul->k());
  if (const plan::Window *window = instruction.body_as_Window())
    return fmt::format("{} {} x {} over {} x {} x {} x {}", plan::EnumNameWindowFunction(window->function()),
                       window->kernel_height(), window->kernel_width(), window->batch(), window->channels(), window->height(),
                       window->width());
  if (const plan::Attention *attention = instruction.body_as_Attention())
    return fmt::format("attention {}{} x {} x {} x {}", attention->backward() ? "backward " : "", attention->batch(),
                       attention->heads(), attention->tokens(), attention->head_size());
  return "copy";
}

Status writeTrace(const Plan &plan, const std::vector<TracedStep> &steps, const std::string &path) {
  nlohmann::json events = nlohmann::json::array();
  using Microseconds = std::chrono::duration<double, std::micro>;
  for (const TracedStep &step : steps) {
    for (const InstructionTime &time : step.times) {
      const plan::Instruction &instruction = *time.instruction;
      events.push_back({{"ph", "X"},
                        {"pid", 0},
                        {"tid", 0},
                        {"name", printable(plan.root().layers()->Get(instruction.layer()))},
                        {"cat", phaseName(instruction.phase())},
                        {"ts", Microseconds(time.begin - steps.front().times.front().begin).count()},
                        {"dur", Microseconds(time.end - time.begin).count()},
                        {"args",
                         {{"kernel", instructionName(plan, instruction)},
                          {"step", step.step},
                          {"flops", instruction.flops()},
                          {"bytes", instruction.bytes_moved()}}}});
    }
  }
  nlohmann::json trace = {{"traceEvents", std::move(events)}, {"displayTimeUnit", "ms"}};
  // Layer names may be no UTF-8.
  std::string text = trace.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  return writeFile(path, text);
}

} // namespace tapeout::rt
