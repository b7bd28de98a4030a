// Plans for tests, written down slot by slot and instruction by instruction.
#pragma once

#include "runtime/base/ElementType.h"
#include "runtime/plan_generated.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace tapeout::rt::test {

/// Appends to a plan and keeps its offsets.
class PlanBuilder {
public:
  PlanBuilder() {
    plan.format_version = static_cast<uint32_t>(plan::PlanFormat::Current);
    plan.compiler = "test";
    plan.target = "cpu";
    plan.model = std::make_unique<plan::ModelT>();
  }

  uint32_t slot(const std::string &name, plan::SlotKind kind, plan::ElementType type, std::vector<int64_t> shape) {
    auto slot = std::make_unique<plan::SlotT>();
    slot->name = name;
    slot->kind = kind;
    slot->element_type = type;
    slot->bytes = elementSize(static_cast<tapeout::ElementType>(type));
    for (int64_t extent : shape)
      slot->bytes *= extent;
    slot->shape = std::move(shape);
    uint64_t &end = kind == plan::SlotKind::Arena ? plan.arena_bytes : plan.persistent_bytes;
    slot->offset = end;
    end += (slot->bytes + 63) / 64 * 64;
    if (kind == plan::SlotKind::Parameter) {
      slot->initializer = std::make_unique<plan::InitializerT>();
      slot->initializer->kind = plan::InitializerKind::Normal;
      slot->initializer->b = 0.02;
    }
    plan.slots.push_back(std::move(slot));
    return plan.slots.size() - 1;
  }

  uint32_t kernel(const std::string &symbol, uint64_t units, uint32_t arguments, uint32_t results) {
    auto kernel = std::make_unique<plan::KernelT>();
    kernel->symbol = symbol;
    kernel->units = units;
    kernel->grain = 1;
    kernel->argument_count = arguments;
    kernel->result_count = results;
    plan.kernels.push_back(std::move(kernel));
    return plan.kernels.size() - 1;
  }

  plan::ProgramT &program(const std::string &name) {
    plan.programs.push_back(std::make_unique<plan::ProgramT>());
    plan.programs.back()->name = name;
    return *plan.programs.back();
  }

  template <typename Body> void add(plan::ProgramT &program, Body body, uint32_t layer, uint8_t phase) {
    auto instruction = std::make_unique<plan::InstructionT>();
    instruction->body.Set(std::move(body));
    instruction->layer = layer;
    instruction->phase = phase;
    instruction->flops = 10;
    program.instructions.push_back(std::move(instruction));
  }

  void launch(plan::ProgramT &program, uint32_t kernel, std::vector<uint32_t> arguments, uint32_t layer,
              uint8_t phase) {
    plan::LaunchT launch;
    launch.kernel = kernel;
    launch.arguments = std::move(arguments);
    add(program, std::move(launch), layer, phase);
  }

  void name(std::vector<std::unique_ptr<plan::NamedSlotT>> &list, const std::string &name, uint32_t slot) {
    list.push_back(std::make_unique<plan::NamedSlotT>());
    list.back()->name = name;
    list.back()->slot = slot;
  }

  void defaultValue(const std::string &name, double value) {
    plan.defaults.push_back(std::make_unique<plan::DefaultT>());
    plan.defaults.back()->name = name;
    plan.defaults.back()->value = value;
  }

  plan::PlanT plan;
};

} // namespace tapeout::rt::test
