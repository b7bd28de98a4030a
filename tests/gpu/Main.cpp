// tapeout-gpu-test [CUBIN ARCHITECTURE]: checks the executor for cuda on the first GPU. `--ptx` prints the kernels, to be
// compiled for the optional arguments: tapeout-gpu-test --ptx >k.ptx; ptxas -arch sm_90 k.ptx -o k.cubin
// `--attention`: only attention. `--own-kernels FOLDER`: only the kernels written by hand, of the plans that
// gpu-attention-plans and gpu-product-plans have written there.
#include "runtime/base/Hyperparameters.h"
#include "runtime/base/Package.h"
#include "tests/gpu/GpuTest.h"
#include "tests/gpu/Kernels.h"
#include "tests/runtime/PlanBuilder.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>

namespace tapeout::rt::test {

GpuMachine::GpuMachine(Report &report, const plan::PlanT &source, const ExecutorOptions &options)
    : plan([&] {
        flatbuffers::FlatBufferBuilder builder;
        plan::FinishPlanBuffer(builder, plan::Plan::Pack(builder, &source));
        Result<Plan> loaded = Plan::load({builder.GetBufferPointer(), builder.GetSize()});
        if (!loaded.isOk()) {
          fmt::print("FAIL  a plan of this test: {}\n", loaded.status().message());
          std::exit(1);
        }
        return std::move(*loaded);
      }()) {
  Result<CudaLibraries> libraries = CudaLibraries::open(plan);
  Result<std::unique_ptr<CudaExecutor>> created =
      libraries.isOk() ? CudaExecutor::create(plan, *libraries, options) : libraries.status();
  if (created.isOk())
    executor = std::move(*created);
  else
    report.check(created.status(), "executor");
}

uint32_t GpuMachine::slot(const std::string &name) const {
  for (uint32_t i = 0; i < plan.slotCount(); ++i)
    if (plan.slot(i).name()->str() == name)
      return i;
  fmt::print("FAIL  this test has no slot '{}'\n", name);
  std::exit(1);
}

std::vector<uint8_t> GpuMachine::bytes(const std::string &name) {
  Result<SlotBytes> read = executor->read(slot(name));
  if (!read.isOk()) {
    fmt::print("FAIL  reading '{}': {}\n", name, read.status().message());
    std::exit(1);
  }
  return {read->get().begin(), read->get().end()};
}

std::vector<float> GpuMachine::floats(const std::string &name) {
  std::vector<uint8_t> from = bytes(name);
  std::vector<float> values(from.size() / sizeof(float));
  std::memcpy(values.data(), from.data(), from.size());
  return values;
}

std::optional<plan::PlanT> compiledPlan(Report &report, const std::string &path, const std::string &kernel) {
  Result<Package> package = openPackage(path);
  const Section *section = package.isOk() ? package->find(SectionKind::Plan) : nullptr;
  if (!section) {
    report.check(false, path, "{}", package.isOk() ? "has no plan" : package.status().message());
    return std::nullopt;
  }
  PlanBuilder builder;
  builder.plan = std::move(*plan::UnPackPlan(section->bytes.data()));
  for (std::unique_ptr<plan::SlotT> &slot : builder.plan.slots) // results are named "program/result"
    slot->name = slot->name.substr(slot->name.find('/') + 1);
  builder.slot("config", plan::SlotKind::Config, plan::ElementType::F64, {kConfigSlotLength}); // every plan has it
  auto isNamed = [&](const auto &one) { return one->symbol.find(kernel) != std::string::npos; };
  if (std::none_of(builder.plan.kernels.begin(), builder.plan.kernels.end(), isNamed)) {
    report.check(false, path, "has no kernel '{}'", kernel);
    return std::nullopt;
  }
  return std::move(builder.plan);
}

} // namespace tapeout::rt::test

int main(int argc, char **argv) {
  using namespace tapeout::rt::test;
  if (argc == 2 && std::strcmp(argv[1], "--ptx") == 0) {
    std::fputs(kKernelsPtx, stdout);
    return 0;
  }
  Report report;
  auto finish = [&] {
    fmt::print("{}\n", report.failures() == 0 ? "all passed" : fmt::format("{} failed", report.failures()));
    return report.failures() == 0 ? 0 : 1;
  };
  if (argc == 3 && std::strcmp(argv[1], "--own-kernels") == 0) {
    testAttentionKernels(report, argv[2]);
    testProductKernels(report, argv[2]);
    return finish();
  }
  std::vector<uint8_t> cubin;
  uint32_t architecture = 0;
  if (argc == 3) {
    std::ifstream file(argv[1], std::ios::binary);
    cubin.assign(std::istreambuf_iterator<char>(file), {});
    architecture = static_cast<uint32_t>(std::atoi(argv[2]));
  }
  if (argc != 2 || std::strcmp(argv[1], "--attention") != 0) {
    testSteps(report, cubin, architecture);
    testProducts(report);
  }
  testAttention(report);
  return finish();
}
