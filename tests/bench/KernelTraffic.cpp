// Runs one kernel of an executable by itself, for tests/bench/compare-traffic to count its cache misses.
//
//   kernel-traffic EXECUTABLE                 lists the kernels of the step: number, bytes by the cost model, symbol
//   kernel-traffic EXECUTABLE NUMBER TIMES    runs one that often on one thread, on buffers of its own
#include "runtime/Plan.h"
#include "runtime/base/Package.h"
#include "runtime/device/cpu/KernelLibrary.h"

#include <fmt/format.h>

#include <cstdlib>
#include <cstring>
#include <memory>
#include <set>

namespace tapeout::rt {
namespace {

constexpr uint64_t kAlignment = 4096;

Status list(const Plan &plan) {
  std::set<uint32_t> seen;
  const auto &instructions = orEmpty(plan.program("step")->instructions());
  for (uint32_t i = 0; i < instructions.size(); ++i)
    if (const plan::Launch *launch = instructions[i]->body_as_Launch(); launch && seen.insert(launch->kernel()).second)
      fmt::print("{} {} {}\n", i, instructions[i]->bytes_moved(), plan.root().kernels()->Get(launch->kernel())->symbol()->str());
  return Status::ok();
}

/// Integers are ids all over the vocabulary, in no order; everything else is zero.
void fill(const Plan &plan, const plan::Slot &slot, uint8_t *bytes) {
  std::memset(bytes, 0, slot.bytes());
  if (elementType(slot) != ElementType::I32)
    return;
  for (uint64_t i = 0; i < elementCount(slot); ++i) {
    auto value = static_cast<int32_t>(i * 7919 % static_cast<uint64_t>(std::max<int64_t>(1, plan.model().vocabulary())));
    std::memcpy(bytes + i * sizeof value, &value, sizeof value);
  }
}

Status run(const Plan &plan, const Package &package, uint32_t number, int times) {
  const auto &instructions = orEmpty(plan.program("step")->instructions());
  const plan::Launch *launch = number < instructions.size() ? instructions[number]->body_as_Launch() : nullptr;
  const Section *kernels = package.find(SectionKind::CpuKernels);
  if (!launch || !kernels)
    return Status::error(ExitCode::Usage, fmt::format("instruction {} is no kernel launch", number));
  Result<std::unique_ptr<KernelLibrary>> library = KernelLibrary::load(kernels->bytes);
  if (!library.isOk())
    return library.status();
  const plan::Kernel &kernel = *plan.root().kernels()->Get(launch->kernel());
  Result<KernelFunction> function = (*library)->resolve(kernel.symbol()->str(), CpuIsa::Avx2);
  if (!function.isOk())
    return function.status();
  std::vector<std::unique_ptr<void, decltype(&std::free)>> buffers;
  std::vector<void *> arguments;
  for (uint32_t i = 0; i < kernel.argument_count(); ++i) {
    const plan::Slot &slot = plan.slot(launch->arguments()->Get(i));
    buffers.emplace_back(std::aligned_alloc(kAlignment, (slot.bytes() / kAlignment + 1) * kAlignment), &std::free);
    arguments.push_back(buffers.back().get());
    fill(plan, slot, static_cast<uint8_t *>(arguments.back()));
  }
  for (int i = 0; i < times; ++i)
    (*function)(arguments.data(), 0, static_cast<int64_t>(kernel.units()));
  return Status::ok();
}

Status main(int argc, char **argv) {
  if (argc != 2 && argc != 4)
    return Status::error(ExitCode::Usage, "give an executable, or an executable, the number of a launch and how often to run it");
  Result<Package> package = openPackage(argv[1]);
  if (!package.isOk())
    return package.status();
  const Section *section = package->find(SectionKind::Plan);
  if (!section)
    return Status::error(ExitCode::BadData, fmt::format("{} holds no plan", argv[1]));
  Result<Plan> plan = Plan::load(section->bytes);
  if (!plan.isOk())
    return plan.status();
  return argc == 2 ? list(*plan) : run(*plan, *package, std::atoi(argv[2]), std::atoi(argv[3]));
}

} // namespace
} // namespace tapeout::rt

int main(int argc, char **argv) {
  tapeout::Status status = tapeout::rt::main(argc, argv);
  if (!status.isOk())
    fmt::print(stderr, "kernel-traffic: {}\n", status.message());
  return static_cast<int>(status.code());
}
