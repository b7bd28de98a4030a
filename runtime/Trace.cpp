#include "runtime/Trace.h"

#include "runtime/TraceTable.h"
#include "runtime/base/AtomicFile.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <utility>

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

std::optional<ElementType> productType(const Plan &plan, const plan::Instruction &instruction) {
  if (const plan::Matmul *matmul = instruction.body_as_Matmul())
    return elementType(plan.slot(matmul->a()));
  if (const plan::Attention *attention = instruction.body_as_Attention())
    return elementType(plan.slot(attention->operands()->Get(0)->slot()));
  return std::nullopt;
}

Status writeTrace(const Plan &plan, const TracedSteps &steps, const std::string &path) {
  using Microseconds = std::chrono::duration<double, std::micro>;
  const Recording &recording = steps.recording;
  nlohmann::json events = nlohmann::json::array();
  std::optional<std::chrono::steady_clock::time_point> start;
  for (size_t i = 0; i < recording.runs.size(); ++i) {
    const plan::Instruction *last = nullptr;
    for (const Activity &activity : recording.runs[i].activities) {
      const plan::Instruction &instruction = *activity.instruction;
      const bool isFirst = std::exchange(last, &instruction) != &instruction;
      const std::string name = instructionName(plan, instruction);
      start = start.value_or(activity.begin);
      events.push_back({{"ph", "X"},
                        {"pid", 0},
                        {"tid", 0},
                        {"name", printable(plan.root().layers()->Get(instruction.layer()))},
                        {"cat", phaseName(instruction.phase())},
                        {"ts", Microseconds(activity.begin - *start).count()},
                        {"dur", Microseconds(activity.end - activity.begin).count()},
                        {"args",
                         {{"kernel", activity.kernel.empty() ? name : activity.kernel},
                          {"instruction", name},
                          {"step", steps.first + i},
                          {"flops", isFirst ? instruction.flops() : 0},
                          {"bytes", isFirst ? instruction.bytes_moved() : 0}}}});
    }
  }
  nlohmann::json trace = {{"traceEvents", std::move(events)}, {"displayTimeUnit", "ms"}, {"means", recording.means}};
  if (recording.graphs)
    trace["graphs"] = {{"inside", recording.graphs->inside},
                       {"outside", recording.graphs->outside},
                       {"host_reads", recording.graphs->hostReads}};
  // Layer names may be no UTF-8.
  TAPEOUT_RETURN_IF_ERROR(writeFile(path, trace.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace)));
  return writeFile(path + ".txt", traceTable(plan, steps));
}

} // namespace tapeout::rt
