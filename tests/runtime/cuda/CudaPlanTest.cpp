// Plan::load refuses hostile plans for cuda before anything of them reaches the driver.
#include "runtime/Plan.h"
#include "tests/runtime/TestPlans.h"

#include <elf.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <cstring>
#include <functional>
#include <random>

namespace tapeout::rt {
namespace {

using namespace test;

plan::GpuKernelT &gpuOf(plan::PlanT &plan) { return *plan.kernels[0]->gpu; }
std::vector<uint8_t> &cubinOf(plan::PlanT &plan) { return plan.modules[0]->cubins[0]->bytes; }
plan::MatmulT &matmulOf(plan::PlanT &plan) { return *plan.programs[0]->instructions[0]->body.AsMatmul(); }
void setElf(plan::PlanT &plan, size_t at, auto value) { std::memcpy(cubinOf(plan).data() + at, &value, sizeof value); }

void addEpilogue(plan::PlanT &plan) { // difference: (prediction, y) -> difference
  plan::MatmulT &matmul = matmulOf(plan);
  matmul.epilogue = std::make_unique<plan::LaunchT>();
  matmul.epilogue->arguments = {matmul.c, slotIndex(plan, "labels"), matmul.c};
}

struct HostileCase {
  const char *name;
  std::function<void(plan::PlanT &)> damage;
  const char *message;
};

const std::vector<HostileCase> kCases = {
    {"NoModule", [](auto &p) { p.modules.clear(); }, "lies in no module"},
    {"ModuleIndex", [](auto &p) { gpuOf(p).module_ = 1; }, "lies in no module"},
    {"BiasWithoutEpilogue", [](auto &p) { matmulOf(p).bias = true; }, "has a bias but no kernel that adds it"},
    {"EpilogueOfNoBias", [](auto &p) { addEpilogue(p); }, "has an epilogue that is no bias"},
    {"NoGpu", [](auto &p) { p.kernels[0]->gpu.reset(); }, "lies in no module"},
    {"Blocks", [](auto &p) { gpuOf(p).blocks = 0; }, "0 blocks"},
    {"ManyBlocks", [](auto &p) { gpuOf(p).blocks = UINT32_MAX; }, "4294967295 blocks"},
    {"Threads", [](auto &p) { gpuOf(p).threads = 1025; }, "of 1025 threads"},
    {"Shared", [](auto &p) { gpuOf(p).shared_bytes = 300 << 10; }, "bytes of shared memory"},
    {"Workspace", [](auto &p) { p.workspace_bytes = UINT64_MAX; }, "bytes of workspace"},
    {"EmptyModule", [](auto &p) { p.modules[0] = std::make_unique<plan::KernelModuleT>(); }, "module 0 is empty"},
    {"PtxZero", [](auto &p) { p.modules[0]->ptx = std::string("a\0b", 3); }, "a zero inside"},
    {"Architecture", [](auto &p) { p.modules[0]->cubins[0]->architecture = 0; }, "architecture 0"},
    {"ArchitectureTwice", [](auto &p) { p.modules[0]->cubins[1]->architecture = 90; }, "given twice"},
    {"CubinEmpty", [](auto &p) { cubinOf(p).clear(); }, "no ELF file"},
    {"CubinShort", [](auto &p) { cubinOf(p).resize(63); }, "no ELF file"},
    {"CubinMagic", [](auto &p) { cubinOf(p)[0] = 0; }, "no ELF file"},
    {"CubinMachine", [](auto &p) { setElf(p, offsetof(Elf64_Ehdr, e_machine), uint16_t(EM_X86_64)); }, "no ELF file"},
    {"CubinSections", [](auto &p) { setElf(p, offsetof(Elf64_Ehdr, e_shnum), uint16_t(2)); }, "no ELF file"},
    {"CubinSectionsWrap", [](auto &p) { setElf(p, offsetof(Elf64_Ehdr, e_shoff), ~uint64_t(0)); }, "no ELF file"},
    {"CubinSegments", [](auto &p) { setElf(p, offsetof(Elf64_Ehdr, e_phoff), uint64_t(66)); }, "no ELF file"},
    {"CubinSectionOutside",
     [](auto &p) {
       cubinOf(p).resize(sizeof(Elf64_Ehdr) + sizeof(Elf64_Shdr));
       setElf(p, offsetof(Elf64_Ehdr, e_shoff), uint64_t(sizeof(Elf64_Ehdr)));
       setElf(p, offsetof(Elf64_Ehdr, e_shnum), uint16_t(1));
       setElf(p, sizeof(Elf64_Ehdr) + offsetof(Elf64_Shdr, sh_type), uint32_t(SHT_PROGBITS));
       setElf(p, sizeof(Elf64_Ehdr) + offsetof(Elf64_Shdr, sh_size), uint64_t(1) << 40);
     },
     "no ELF file"},
    {"ManyArguments",
     [](auto &p) {
       p.kernels[0]->argument_count = 513;
       p.programs[0]->instructions[1]->body.AsLaunch()->arguments.resize(513, slotIndex(p, "difference"));
     },
     "513 arguments"},
    {"Epilogue",
     [](auto &p) {
       matmulOf(p).epilogue = std::make_unique<plan::LaunchT>();
       matmulOf(p).epilogue->arguments = {matmulOf(p).c};
     },
     "has an epilogue"},
    {"MatmulTypes", [](auto &p) { p.slots[slotIndex(p, "x")]->element_type = plan::ElementType::I32; }, "is of i32, f32 and f32"},
    {"MatmulMixed",
     [](auto &p) {
       p.slots[slotIndex(p, "x")]->element_type = plan::ElementType::BF16;
     },
     "is of bf16, f32 and f32"},
    {"MatmulStrides",
     [](auto &p) {
       matmulOf(p).k = 2, matmulOf(p).a_column_stride = 4, matmulOf(p).a_row_stride = 2;
     },
     "no contiguous dimension"},
    {"Window", [](auto &p) { p.programs[0]->instructions[0]->body.Set(plan::WindowT()); }, "do not run on cuda"},
};

TEST(CudaPlan, TakesAGoodPlan) {
  Result<Plan> plan = Plan::load(serialize(cudaRegressionPlan()));
  EXPECT_TRUE(plan.isOk()) << plan.status().message();
}

TEST(CudaPlan, RefusesHostilePlans) {
  for (const HostileCase &hostile : kCases) {
    SCOPED_TRACE(hostile.name);
    plan::PlanT plan = cudaRegressionPlan();
    hostile.damage(plan);
    Result<Plan> loaded = Plan::load(serialize(plan));
    ASSERT_FALSE(loaded.isOk());
    EXPECT_EQ(loaded.status().code(), ExitCode::BadData);
    EXPECT_NE(loaded.status().message().find(hostile.message), std::string::npos) << loaded.status().message();
  }
}

TEST(CudaPlan, SurvivesBitFlips) {
  const std::vector<uint8_t> good = serialize(cudaRegressionPlan());
  std::mt19937 random(1);
  int refused = 0;
  for (int i = 0; i < 1000; ++i) {
    std::vector<uint8_t> bytes = good;
    for (int flips = 1 + i % 3; flips > 0; --flips)
      bytes[random() % bytes.size()] ^= 1 << random() % 8;
    refused += !Plan::load(bytes).isOk();
  }
  EXPECT_GT(refused, 500);
}

} // namespace
} // namespace tapeout::rt
