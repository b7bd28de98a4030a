#include "runtime/Describe.h"

#include "runtime/Trace.h"

#include <fmt/format.h>

#include <array>
#include <iterator>
#include <map>

namespace tapeout::rt {
namespace {

std::string bytesText(uint64_t bytes) {
  constexpr std::array<const char *, 5> units = {"B", "KiB", "MiB", "GiB", "TiB"};
  double value = static_cast<double>(bytes);
  size_t unit = 0;
  while (value >= 1024 && unit + 1 < units.size()) {
    value /= 1024;
    ++unit;
  }
  return unit == 0 ? fmt::format("{} B", bytes) : fmt::format("{:.2f} {}", value, units[unit]);
}

const char *taskName(plan::Task task) {
  constexpr std::array<const char *, 4> names = {"language model", "classification", "regression",
                                                 "masked language model"};
  return names[static_cast<size_t>(task)];
}

std::string initializerText(const plan::Initializer &recipe) {
  switch (recipe.kind()) {
  case plan::InitializerKind::Zeros: return "zeros";
  case plan::InitializerKind::Ones: return "ones";
  case plan::InitializerKind::Constant: return fmt::format("constant {:g}", recipe.a());
  case plan::InitializerKind::Normal: return fmt::format("normal mean {:g} deviation {:g}", recipe.a(), recipe.b());
  case plan::InitializerKind::Uniform: return fmt::format("uniform {:g} to {:g}", recipe.a(), recipe.b());
  case plan::InitializerKind::Embedded: return "embedded weights";
  }
  return "";
}

/// Appends lines of "name   value" in two columns.
class Table {
public:
  template <typename... Args> void row(std::string_view name, fmt::format_string<Args...> format, Args &&...args) {
    fmt::format_to(std::back_inserter(text_), "{:<22}{}\n", name, fmt::format(format, std::forward<Args>(args)...));
  }
  void section(std::string_view title) { fmt::format_to(std::back_inserter(text_), "\n{}\n", title); }
  std::string take() { return std::move(text_); }

private:
  std::string text_;
};

void addModel(Table &table, const Plan &plan) {
  const plan::Model &model = plan.model();
  uint64_t trained = 0, rest = 0;
  for (uint32_t index : plan.slotsOfKind(plan::SlotKind::Parameter))
    (plan.slot(index).trainable() ? trained : rest) += elementCount(plan.slot(index));
  table.row("model", "{} ({})", printable(model.name()), taskName(model.task()));
  table.row("batch", "{} samples", model.batch());
  if (model.context() > 0)
    table.row("context", "{} tokens", model.context());
  if (model.vocabulary() > 0)
    table.row(readsTokens(model.task()) ? "vocabulary" : "classes", "{}", model.vocabulary());
  if (model.task() == plan::Task::MaskedLanguageModel)
    table.row("mask token", "{}", model.mask_token());
  table.row("parameters", "{} trained, {} frozen or statistics", trained, rest);
  table.row("compiled by", "{} for {}", printable(plan.root().compiler()), printable(plan.root().target()));
  table.row("options", "{}", printable(plan.root().options()));
  table.row("plan hash", "{}", plan.hash());
}

/// "PTX, sm_80, sm_90": what the modules of a plan for cuda have in common.
std::string gpuKernelsText(const Plan &plan) {
  std::map<std::string, uint32_t> modules;
  for (const plan::KernelModule *module : orEmpty(plan.root().modules())) {
    for (const plan::Cubin *cubin : orEmpty(module->cubins()))
      ++modules[fmt::format("sm_{}", cubin->architecture())];
    modules["PTX"] += module->ptx() != nullptr;
  }
  std::erase_if(modules, [&](const auto &entry) { return entry.second < plan.root().modules()->size(); });
  std::vector<std::string> names;
  for (const auto &[name, count] : modules)
    names.push_back(name);
  return fmt::format("{}", fmt::join(names, ", "));
}

void addMemory(Table &table, const Plan &plan) {
  std::map<plan::SlotKind, uint64_t> bytes;
  for (uint32_t i = 0; i < plan.slotCount(); ++i)
    bytes[plan.slot(i).kind()] += plan.slot(i).bytes();
  table.section("memory");
  table.row("one step (arena)", "{}", bytesText(plan.arenaBytes()));
  table.row("whole run", "{}", bytesText(plan.persistentBytes()));
  if (plan.root().workspace_bytes() > 0)
    table.row("library kernels", "{}", bytesText(plan.root().workspace_bytes()));
  table.row("  parameters", "{}", bytesText(bytes[plan::SlotKind::Parameter]));
  table.row("  optimizer state", "{}", bytesText(bytes[plan::SlotKind::OptimizerState]));
  if (bytes[plan::SlotKind::Copy] > 0)
    table.row("  parameters in low precision", "{}", bytesText(bytes[plan::SlotKind::Copy]));
  table.row("  constants", "{}", bytesText(bytes[plan::SlotKind::Constant]));
  table.row("  inputs", "{}", bytesText(bytes[plan::SlotKind::Input]));
}

void addProgram(Table &table, const plan::Program &program) {
  std::array<uint64_t, 5> flops = {};
  for (const plan::Instruction *instruction : orEmpty(program.instructions()))
    flops[instruction->phase()] += instruction->flops();
  const ProgramTotals totals = totalsOf(program);
  table.section(fmt::format("program {}", printable(program.name())));
  table.row("instructions", "{} ({} kernel launches, {} matrix products, {}{}{} copies)",
            orEmpty(program.instructions()).size(), totals.launches, totals.products,
            totals.attentions > 0 ? fmt::format("{} attentions, ", totals.attentions) : "",
            totals.windows > 0 ? fmt::format("{} convolutions and poolings, ", totals.windows) : "", totals.copies);
  if (totals.nondeterministic > 0)
    table.row("bits", "differ from run to run: {} attentions add in any order", totals.nondeterministic);
  table.row("flops", "{:.4g}", static_cast<double>(totals.flops));
  for (uint8_t phase = 0; phase < flops.size(); ++phase)
    if (flops[phase] > 0)
      table.row(fmt::format("  {}", phaseName(phase)), "{:.4g}", static_cast<double>(flops[phase]));
  table.row("bytes moved", "{}", bytesText(totals.bytesMoved));
}

void addHyperparameters(Table &table, const Plan &plan) {
  table.section(fmt::format("optimizer {}", printable(plan.root().optimizer())));
  for (const plan::Default *entry : orEmpty(plan.root().defaults()))
    table.row(printable(entry->name()), "{:g}", entry->value());
}

void addParameters(Table &table, const Plan &plan) {
  table.section("parameters");
  for (uint32_t index : plan.slotsOfKind(plan::SlotKind::Parameter)) {
    const plan::Slot &slot = plan.slot(index);
    table.row(printable(slot.name()), " {} [{}]{}, {}", name(elementType(slot)), fmt::join(shapeOf(slot), ", "),
              slot.trainable() ? "" : ", not trained", initializerText(*slot.initializer()));
  }
}

} // namespace

std::string describePlan(const Plan &plan) {
  Table table;
  addModel(table, plan);
  addMemory(table, plan);
  for (const plan::Program *program : orEmpty(plan.root().programs()))
    addProgram(table, *program);
  table.row("kernels", "{}", orEmpty(plan.root().kernels()).size());
  if (orEmpty(plan.root().modules()).size() > 0)
    table.row("kernels for", "{}", gpuKernelsText(plan));
  addHyperparameters(table, plan);
  addParameters(table, plan);
  return table.take();
}

} // namespace tapeout::rt
