// gpu-kernel-times EXECUTABLE: how long each kernel of the training step takes on the GPU of this machine, and what share
// of the speed of a copy its bytes reach. Slots hold random numbers; ids are below the vocabulary. Of a plan without a
// training step (gpu-kernel-speed-plan): how long the kernels of each program take together.
#include "runtime/base/Package.h"
#include "runtime/plan_generated.h"
#include "tests/codegen/gpu/Driver.h"

#include <algorithm>
#include <map>
#include <random>
#include <string>
#include <vector>

namespace tapeout::gpu {
namespace {

class PlanOnGpu {
public:
  explicit PlanOnGpu(const plan::PlanT &plan) : plan_(plan) {
    arena_ = driver_.allocate(plan.arena_bytes + 64);
    persistent_ = driver_.allocate(plan.persistent_bytes + 64);
    fillRandomly(arena_, plan.arena_bytes);
    fillRandomly(persistent_, plan.persistent_bytes);
    for (const auto &slot : plan.slots)
      if (slot->element_type == plan::ElementType::I32 && slot->kind == plan::SlotKind::Input)
        fillIds(*slot);
    for (const auto &module : plan.modules)
      modules_.push_back(driver_.load(module->cubins.empty() ? static_cast<const void *>(module->ptx.c_str())
                                                             : module->cubins.back()->bytes.data()));
  }

  /// Bytes per second, read and written, of a copy of 1 GiB.
  double copySpeed() {
    constexpr size_t kBytes = size_t(1) << 30;
    Address from = driver_.allocate(kBytes), to = driver_.allocate(kBytes);
    double seconds = time([&] { driver_.copy(to, from, kBytes); });
    driver_.free(from);
    driver_.free(to);
    return 2 * kBytes / seconds;
  }

  double secondsOf(const std::vector<const plan::LaunchT *> &launches) {
    std::vector<PreparedLaunch> prepared;
    for (const plan::LaunchT *launch : launches)
      prepared.push_back(prepare(*launch));
    double seconds = time([&] {
      for (PreparedLaunch &launch : prepared)
        driver_.launch(launch.function, launch.gpu->blocks, launch.gpu->threads, launch.gpu->shared_bytes,
                       launch.pointers.data());
    });
    for (PreparedLaunch &launch : prepared)
      driver_.free(launch.table);
    return seconds;
  }

private:
  struct PreparedLaunch {
    Function function;
    const plan::GpuKernelT *gpu;
    std::unique_ptr<Address[]> addresses; // of the arguments, or of their table
    std::vector<void *> pointers;         // to these
    Address table;
  };
  PreparedLaunch prepare(const plan::LaunchT &launch) {
    const plan::KernelT &kernel = *plan_.kernels[launch.kernel];
    std::vector<Address> addresses;
    for (uint32_t slot : launch.arguments)
      addresses.push_back(addressOf(*plan_.slots[slot]));
    Address table = driver_.allocate(addresses.size() * sizeof(Address));
    driver_.toDevice(table, addresses.data(), addresses.size() * sizeof(Address));
    if (kernel.gpu->argument_table)
      addresses = {table};
    PreparedLaunch result{driver_.function(modules_[kernel.gpu->module_], kernel.symbol.c_str()), kernel.gpu.get(),
                          std::make_unique<Address[]>(addresses.size()), {}, table};
    for (size_t i = 0; i < addresses.size(); ++i) {
      result.addresses[i] = addresses[i];
      result.pointers.push_back(&result.addresses[i]);
    }
    return result;
  }
  Address addressOf(const plan::SlotT &slot) const {
    return (slot.kind == plan::SlotKind::Arena ? arena_ : persistent_) + slot.offset;
  }
  void fillRandomly(Address to, uint64_t bytes) { // with floats in [-1, 1]
    std::vector<float> numbers(std::min<uint64_t>(bytes / 4, 1 << 24));
    std::mt19937 generator(1);
    for (float &number : numbers)
      number = std::uniform_real_distribution<float>(-1, 1)(generator);
    for (uint64_t at = 0; at < bytes / 4; at += numbers.size())
      driver_.toDevice(to + at * 4, numbers.data(), std::min<uint64_t>(numbers.size(), bytes / 4 - at) * 4);
  }
  void fillIds(const plan::SlotT &slot) {
    std::vector<int32_t> ids(slot.bytes / 4);
    std::mt19937 generator(2);
    for (int32_t &id : ids)
      id = generator() % std::max<int64_t>(plan_.model->vocabulary, 1);
    driver_.toDevice(addressOf(slot), ids.data(), ids.size() * 4);
  }
  template <typename Run> double time(Run run) { // the median of 10
    run();
    std::vector<float> times;
    for (int i = 0; i < 10; ++i) {
      Event from = driver_.record();
      run();
      times.push_back(driver_.milliseconds(from, driver_.record()));
    }
    std::nth_element(times.begin(), times.begin() + 5, times.end());
    return times[5] / 1e3;
  }

  const plan::PlanT &plan_;
  Driver driver_;
  Address arena_, persistent_;
  std::vector<Module> modules_;
};

void printLine(double seconds, uint64_t bytes, double copy, int times, const std::string &name) {
  double speed = bytes / seconds;
  std::printf("%8.1f %5d %9.0f %5.0f%%  %s\n", seconds * 1e6, times, speed / 1e9, 100 * speed / copy, name.c_str());
}

void reportStep(PlanOnGpu &gpu, const plan::PlanT &plan, const plan::ProgramT &step, double copy) {
  std::map<uint32_t, int> launches; // of each kernel
  for (const auto &instruction : step.instructions)
    if (const plan::LaunchT *launch = instruction->body.AsLaunch())
      ++launches[launch->kernel];
  double total = 0;
  for (const auto &instruction : step.instructions) {
    const plan::LaunchT *launch = instruction->body.AsLaunch();
    if (!launch || !launches.count(launch->kernel))
      continue;
    int count = launches[launch->kernel];
    double seconds = gpu.secondsOf({launch});
    total += seconds * count;
    printLine(seconds, instruction->bytes_moved, copy, count, plan.kernels[launch->kernel]->symbol);
    launches.erase(launch->kernel);
  }
  std::printf("all launches of a step: %.2f ms\n", total * 1e3);
}

void reportProgram(PlanOnGpu &gpu, const plan::ProgramT &program, double copy) {
  std::vector<const plan::LaunchT *> launches;
  uint64_t bytes = 0;
  for (const auto &instruction : program.instructions)
    if (const plan::LaunchT *launch = instruction->body.AsLaunch()) {
      launches.push_back(launch);
      bytes += instruction->bytes_moved;
    }
  printLine(gpu.secondsOf(launches), bytes, copy, 1, program.name);
}

int report(const char *path) {
  Result<Package> package = openPackage(path);
  const Section *section = package.isOk() ? package->find(SectionKind::Plan) : nullptr;
  if (!section) {
    std::fprintf(stderr, "%s holds no plan\n", path);
    return 65;
  }
  flatbuffers::Verifier verifier(section->bytes.data(), section->bytes.size());
  if (!plan::VerifyPlanBuffer(verifier))
    return 65;
  std::unique_ptr<plan::PlanT> plan(plan::GetPlan(section->bytes.data())->UnPack());
  PlanOnGpu gpu(*plan);
  double copy = gpu.copySpeed();
  auto step = std::find_if(plan->programs.begin(), plan->programs.end(),
                           [](const auto &program) { return program->name == "step"; });
  std::printf("copy: %.0f GB/s\n%8s %5s %9s %6s  kernel\n", copy / 1e9, "us", "times", "GB/s", "share");
  if (step != plan->programs.end()) {
    reportStep(gpu, *plan, **step, copy);
    return 0;
  }
  for (const auto &program : plan->programs)
    reportProgram(gpu, *program, copy);
  return 0;
}

} // namespace
} // namespace tapeout::gpu

int main(int count, char **arguments) {
  if (count == 2)
    return tapeout::gpu::report(arguments[1]);
  std::fprintf(stderr, "usage: %s EXECUTABLE\n", arguments[0]);
  return 2;
}
